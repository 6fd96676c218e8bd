import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.connect.connector.ConnectorContext;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.SourceTaskContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/**
 * The records of a source connector, written by Kafka's JsonConverter with schemas. Each line of the input is a command.
 *
 * `{"start": config}` starts the connector's only task, with `"offset"` where that says, `{"until": text, "within_ms": n}` polls until a record whose
 * topic or value contains the text has come, and `{"stop": true}` stops the task. The answers are `{}` and, to `until`,
 * `{"records": [{"topic", "key", "value", "headers", "partition", "offset"}]}`, or `{"error": text}`.
 */
public class DebeziumRecords {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonConverter CONVERTER = new JsonConverter();
    private static SourceTask task;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        CONVERTER.configure(new HashMap<>(), false);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answered(JSON.readTree(line), answer);
            } catch (Throwable error) {
                error.printStackTrace();
                answer.removeAll();
                answer.put("error", String.valueOf(error));
            }
            out.println(JSON.writeValueAsString(answer));
        }
        System.exit(0);
    }

    private static void answered(JsonNode given, ObjectNode answer) throws Exception {
        if (given.has("start")) {
            start(given.path("start"), given.path("offset"));
        } else if (given.has("until")) {
            poll(given.path("until").asText(), given.path("within_ms").asLong(), answer.putArray("records"));
        } else {
            task.stop();
        }
    }

    private static void start(JsonNode given, JsonNode offset) throws Exception {
        Map<String, String> config = new HashMap<>();
        given.fields().forEachRemaining(one -> config.put(one.getKey(), one.getValue().asText()));
        Class<?> kind = Class.forName(config.get("connector.class"));
        SourceConnector connector = (SourceConnector) kind.getDeclaredConstructor().newInstance();
        connector.initialize(new ConnectorContext() {
            public void requestTaskReconfiguration() {
            }

            public void raiseError(Exception error) {
                error.printStackTrace();
            }

            public org.apache.kafka.common.metrics.PluginMetrics pluginMetrics() {
                return null;
            }
        });
        connector.start(config);
        Map<String, String> settings = connector.taskConfigs(1).get(0);
        task = (SourceTask) connector.taskClass().getDeclaredConstructor().newInstance();
        task.initialize(new SourceTaskContext() {
            public Map<String, String> configs() {
                return settings;
            }

            public OffsetStorageReader offsetStorageReader() {
                return new Given(offset);
            }

            public org.apache.kafka.common.metrics.PluginMetrics pluginMetrics() {
                return null;
            }
        });
        task.start(settings);
    }

    private static void poll(String until, long withinMs, ArrayNode records) throws Exception {
        long end = System.currentTimeMillis() + withinMs;
        for (boolean isOver = false; !isOver;) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("no " + until + " after " + records.size() + " records: " + records);
            }
            List<SourceRecord> polled = task.poll();
            for (SourceRecord record : polled == null ? List.<SourceRecord>of() : polled) {
                ObjectNode written = written(record);
                records.add(written);
                isOver |= record.topic().contains(until) || written.path("value").asText().contains(until);
            }
        }
    }

    private static ObjectNode written(SourceRecord record) {
        ObjectNode written = JSON.createObjectNode();
        written.put("topic", record.topic());
        written.put("key", text(CONVERTER.fromConnectData(record.topic(), record.keySchema(), record.key())));
        written.put("value", text(CONVERTER.fromConnectData(record.topic(), record.valueSchema(), record.value())));
        ArrayNode headers = written.putArray("headers");
        for (Header header : record.headers()) {
            byte[] value = CONVERTER.fromConnectData(record.topic(), header.schema(), header.value());
            headers.addArray().add(header.key()).add(text(value));
        }
        written.set("partition", JSON.valueToTree(record.sourcePartition()));
        written.set("offset", JSON.valueToTree(record.sourceOffset()));
        return written;
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    /** A store that has one offset for each partition, or none. */
    private static class Given implements OffsetStorageReader {
        private final Map<String, Object> offset;

        Given(JsonNode offset) {
            this.offset = offset.isMissingNode() ? null : new HashMap<>();
            offset.fields().forEachRemaining(one -> {
                JsonNode value = one.getValue();
                if (!value.isNull()) {
                    this.offset.put(one.getKey(), value.isNumber() ? (Object) value.asLong()
                        : value.isBoolean() ? (Object) value.asBoolean() : value.asText());
                }
            });
        }

        public <T> Map<String, Object> offset(Map<String, T> partition) {
            return offset;
        }

        public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
            Map<Map<String, T>, Map<String, Object>> found = new HashMap<>();
            if (offset != null) {
                partitions.forEach(one -> found.put(one, offset));
            }
            return found;
        }
    }
}
