import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Joins a share group that begins at the earliest, says "read" whenever it was given records, leaves when told so. */
class ShareReader {
    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        try (var admin = Admin.create(settings)) {
            var earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            var set = new AlterConfigOp(earliest, AlterConfigOp.OpType.SET);
            var group = new ConfigResource(ConfigResource.Type.GROUP, arguments[1]);
            admin.incrementalAlterConfigs(Map.of(group, List.of(set))).all().get();
        }
        var text = new StringDeserializer();
        try (var consumer = new KafkaShareConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(arguments[2]));
            while (System.in.available() == 0) {
                if (!consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                    System.out.println("read");
                }
            }
        }
        System.out.println("left");
    }
}
