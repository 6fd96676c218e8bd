import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Makes `rows` rows of ten fields for a `topic`, `batch.size` of them a poll: the same as `bench/plugins/rows.py`. */
public class RowsSource extends SourceConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> settings) {
        this.settings = settings;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return RowsTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return List.of(settings);
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public String version() {
        return "1";
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> settings) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    public static class RowsTask extends SourceTask {
        private static final String[] CITIES = {"Basel", "Bergen", "Bilbao", "Bologna", "Brno", "Bruges", "Bonn"};
        private static final Map<String, ?> PARTITION = Map.of("rows", "all");
        private static final Schema SCHEMA = SchemaBuilder.struct().name("bench.Row")
            .field("id", Schema.INT64_SCHEMA)
            .field("customer", Schema.STRING_SCHEMA)
            .field("city", Schema.STRING_SCHEMA)
            .field("article", Schema.STRING_SCHEMA)
            .field("quantity", Schema.INT32_SCHEMA)
            .field("price", Schema.FLOAT64_SCHEMA)
            .field("weight", Schema.FLOAT64_SCHEMA)
            .field("is_gift", Schema.BOOLEAN_SCHEMA)
            .field("ordered_at", Timestamp.SCHEMA)
            .field("note", Schema.OPTIONAL_STRING_SCHEMA)
            .build();

        private String topic;
        private long rows;
        private int size;
        private long next;

        @Override
        public void start(Map<String, String> settings) {
            topic = settings.get("topic");
            rows = Long.parseLong(settings.get("rows"));
            size = Integer.parseInt(settings.get("batch.size"));
            Map<String, Object> offset = context.offsetStorageReader().offset(PARTITION);
            next = offset == null ? 0 : (Long) offset.get("next");
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (next >= rows) {
                Thread.sleep(100);
                return null;
            }
            List<SourceRecord> records = new ArrayList<>(size);
            for (long end = Math.min(rows, next + size); next < end; next++) {
                Map<String, Long> offset = Map.of("next", next + 1);
                records.add(new SourceRecord(PARTITION, offset, topic, SCHEMA, row(next)));
            }
            return records;
        }

        private static Struct row(long n) {
            return new Struct(SCHEMA)
                .put("id", n)
                .put("customer", "customer-" + n % 5000)
                .put("city", CITIES[(int) (n % 7)])
                .put("article", "article-" + n % 300)
                .put("quantity", (int) (n % 90 + 1))
                .put("price", (n % 10000) / 100.0)
                .put("weight", (n % 997) / 7.0)
                .put("is_gift", n % 11 == 0)
                .put("ordered_at", new Date(1700000000000L + n))
                .put("note", n % 3 == 0 ? null : "please ring twice");
        }

        @Override
        public void stop() {
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
