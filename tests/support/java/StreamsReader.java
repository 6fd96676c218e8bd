import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** Reads in a streams group, by way of a repartition topic, says "read" at each record, and commits when told to leave. */
class StreamsReader {
    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("state.dir", arguments[3]);
        settings.put("group.protocol", "streams");
        settings.put("commit.interval.ms", "3600000");
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        var builder = new StreamsBuilder();
        var read = builder.<String, String>stream(arguments[2]).peek((key, value) -> System.out.println("read"));
        read.repartition().foreach((key, value) -> {});
        try (var streams = new KafkaStreams(builder.build(), settings)) {
            streams.start();
            System.in.read();
        }
        System.out.println("left");
    }
}
