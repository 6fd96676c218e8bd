import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Prints all records of a topic, one a line: partition, offset, timestamp, key, value, names and values of headers. */
class BatchReader {
    public static void main(String[] arguments) {
        var settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("isolation.level", "read_committed");
        settings.put("max.partition.fetch.bytes", "8000000");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            var partitions = new ArrayList<TopicPartition>();
            for (var info : consumer.partitionsFor(arguments[1])) {
                partitions.add(new TopicPartition(info.topic(), info.partition()));
            }
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            var ends = consumer.endOffsets(partitions);
            while (!isBehind(consumer, ends)) {
                for (var record : consumer.poll(Duration.ofMillis(200))) {
                    var line = new StringBuilder();
                    line.append(record.partition()).append(' ').append(record.offset()).append(' ').append(record.timestamp());
                    line.append(' ').append(text(record.key())).append(' ').append(text(record.value()));
                    for (var header : record.headers()) {
                        line.append(' ').append(text(header.key().getBytes(java.nio.charset.StandardCharsets.UTF_8)));
                        line.append(' ').append(text(header.value()));
                    }
                    System.out.println(line);
                }
            }
        }
    }

    private static boolean isBehind(KafkaConsumer<?, ?> consumer, Map<TopicPartition, Long> ends) {
        return ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) >= end.getValue());
    }

    private static String text(byte[] data) {
        return data == null ? "null" : "=" + Base64.getEncoder().encodeToString(data);
    }
}
