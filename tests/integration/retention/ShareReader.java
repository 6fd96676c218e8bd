import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Joins a share group, says so once it was given a chance to fetch, and leaves when its input ends. */
class ShareReader {
    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        var text = new StringDeserializer();
        try (var consumer = new KafkaShareConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(arguments[2]));
            while (System.in.available() == 0) {
                consumer.poll(Duration.ofMillis(100));
                System.out.println("polled");
            }
        }
        System.out.println("left");
    }
}
