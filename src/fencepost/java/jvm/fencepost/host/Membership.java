package fencepost.host;

import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.sink.SinkTaskContext;

/**
 * A sink task's membership in its group, which Python has. Java sees it as a consumer, of which it can ask what Python
 * knows and can do for a task. Threads of the task may ask for the group's metadata, and for the assignment.
 */
final class Membership {
    private volatile Set<TopicPartition> partitions = Set.of();
    private volatile ConsumerGroupMetadata metadata;
    private SinkTaskContext context;

    /** Set what carries out the requests to the consumer. */
    void setContext(SinkTaskContext context) {
        this.context = context;
    }

    Set<TopicPartition> partitions() {
        return partitions;
    }

    @SuppressWarnings("removal")  // Kafka 4 has no other way to make one
    void add(List<TopicPartition> opened, List<?> member) {
        Set<TopicPartition> all = new HashSet<>(partitions);
        all.addAll(opened);
        partitions = Set.copyOf(all);
        if (member != null) {
            int generation = ((Number) member.get(1)).intValue();
            metadata = new ConsumerGroupMetadata(
                    (String) member.get(0), generation, (String) member.get(2), Optional.empty());
        }
    }

    void remove(List<TopicPartition> closed) {
        partitions = partitions.stream().filter(each -> !closed.contains(each)).collect(Collectors.toUnmodifiableSet());
    }

    @SuppressWarnings("unchecked")
    Consumer<byte[], byte[]> consumer() {
        Class<?>[] kinds = {Consumer.class};
        return (Consumer<byte[], byte[]>) Proxy.newProxyInstance(
                Membership.class.getClassLoader(), kinds, (proxy, method, given) -> switch (method.getName()) {
                    case "assignment" -> partitions();
                    case "groupMetadata" -> metadata;
                    case "subscription" -> partitions().stream().map(TopicPartition::topic).collect(Collectors.toSet());
                    case "committed" -> committed((Set<TopicPartition>) given[0]);
                    case "seek" -> seek((TopicPartition) given[0], given[1]);
                    case "toString" -> "the consumer of this task, which is not in this process";
                    case "hashCode" -> System.identityHashCode(proxy);
                    case "equals" -> proxy == given[0];
                    default -> throw new UnsupportedOperationException("the consumer of this task is not in this "
                            + "process, so " + method.getName() + " cannot be called");
                });
    }

    private static Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> places) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        places.forEach(each -> found.put(each, null));  // as a consumer answers for those without an offset
        for (Object each : (List<?>) Session.ask("committed", Map.of("partitions", SinkContext.named(places)))) {
            List<?> parts = (List<?>) each;
            found.put(Request.partition(parts), new OffsetAndMetadata(((Number) parts.get(2)).longValue()));
        }
        return found;
    }

    /** Go to an offset, as "offset" of the context does. */
    private Object seek(TopicPartition place, Object offset) {
        if (!partitions.contains(place)) {
            throw new IllegalStateException("No current assignment for partition " + place);
        }
        context.offset(place, offset instanceof OffsetAndMetadata at ? at.offset() : (Long) offset);
        return null;
    }
}
