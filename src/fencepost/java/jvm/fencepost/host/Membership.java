package fencepost.host;

import java.lang.reflect.Proxy;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.common.TopicPartition;

/** A sink task's membership in its group, which Python has. Java sees it as a consumer of which little can be asked. */
final class Membership {
    private final Set<TopicPartition> partitions = new HashSet<>();
    private ConsumerGroupMetadata metadata;

    Set<TopicPartition> partitions() {
        return Set.copyOf(partitions);
    }

    @SuppressWarnings("removal")  // Kafka 4 has no other way to make one
    void add(List<TopicPartition> opened, List<?> member) {
        partitions.addAll(opened);
        if (member != null) {
            int generation = ((Number) member.get(1)).intValue();
            metadata = new ConsumerGroupMetadata(
                    (String) member.get(0), generation, (String) member.get(2), Optional.empty());
        }
    }

    void remove(List<TopicPartition> closed) {
        partitions.removeAll(closed);
    }

    @SuppressWarnings("unchecked")
    Consumer<byte[], byte[]> consumer() {
        Class<?>[] kinds = {Consumer.class};
        return (Consumer<byte[], byte[]>) Proxy.newProxyInstance(
                Membership.class.getClassLoader(), kinds, (proxy, method, arguments) -> switch (method.getName()) {
                    case "assignment" -> partitions();
                    case "groupMetadata" -> metadata;
                    case "toString" -> "the consumer of this task, which is not in this process";
                    case "hashCode" -> System.identityHashCode(proxy);
                    case "equals" -> proxy == arguments[0];
                    default -> throw new UnsupportedOperationException(
                            "the consumer of this task is not in this process, so " + method.getName() + " cannot be called");
                });
    }
}
