import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/**
 * Copies topics, or counts their records by key if there is a setting "count", exactly once, as it is told: application,
 * topic, topic, threads and further settings (name=value), with tabs between, begin a copy and end the one before; an
 * empty line only ends it. Each line is answered.
 */
class CopyTopology {
    public static void main(String[] arguments) throws Exception {
        var orders = new BufferedReader(new InputStreamReader(System.in));
        KafkaStreams streams = null;
        System.out.println("ready");
        for (String order; (order = orders.readLine()) != null; ) {
            if (streams != null) {
                streams.close();
                streams = null;
            }
            if (!order.isEmpty()) {
                streams = copy(arguments[0], arguments[1], order.split("\t"));
                streams.start();
            }
            System.out.println("done");
        }
        System.exit(0);
    }

    private static KafkaStreams copy(String bootstrap, String state, String[] told) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("application.id", told[0]);
        settings.put("state.dir", state);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.stream.threads", told[3]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("default.key.serde", Serdes.ByteArraySerde.class);
        settings.put("default.value.serde", Serdes.ByteArraySerde.class);
        for (int place = 4; place < told.length; place++) {
            var setting = told[place].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        var builder = new StreamsBuilder();
        var records = builder.<byte[], byte[]>stream(told[1]);
        if (settings.remove("count") == null) {
            records.to(told[2]);
        } else {
            records.groupByKey().count().toStream().mapValues(count -> count.toString().getBytes()).to(told[2]);
        }
        return new KafkaStreams(builder.build(), settings);
    }
}
