package fencepost.host;

import java.lang.reflect.Proxy;
import java.util.Collection;
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
    private final Map<TopicPartition, Long> given = new HashMap<>();
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
                Membership.class.getClassLoader(), kinds, (proxy, method, arguments) -> switch (method.getName()) {
                    case "assignment" -> partitions();
                    case "groupMetadata" -> metadata;
                    case "subscription" -> partitions().stream().map(TopicPartition::topic).collect(Collectors.toSet());
                    case "committed" -> committed((Set<TopicPartition>) arguments[0]);
                    case "position" -> position((TopicPartition) arguments[0]);
                    case "beginningOffsets" -> asked("edges", (Collection<TopicPartition>) arguments[0], 2);
                    case "endOffsets" -> asked("edges", (Collection<TopicPartition>) arguments[0], 3);
                    case "seek" -> seek((TopicPartition) arguments[0], arguments[1]);
                    case "toString" -> "the consumer of this task, which is not in this process";
                    case "hashCode" -> System.identityHashCode(proxy);
                    case "equals" -> proxy == arguments[0];
                    default -> throw new UnsupportedOperationException("the consumer of this task is not in this "
                            + "process, so " + method.getName() + " cannot be called");
                });
    }

    private static Map<TopicPartition, OffsetAndMetadata> committed(Set<TopicPartition> places) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        places.forEach(each -> found.put(each, null));  // as a consumer answers for those without an offset
        asked("committed", places, 2).forEach((each, offset) -> found.put(each, new OffsetAndMetadata(offset)));
        return found;
    }

    /** Python is told of what was given once the call returns. */
    private long position(TopicPartition place) {
        requireAssigned(place);
        Long next = given.get(place);
        return next == null ? asked("positions", List.of(place), 2).get(place) : next;
    }

    private static Map<TopicPartition, Long> asked(String what, Collection<TopicPartition> places, int which) {
        List<?> listed = (List<?>) Session.ask(what, Map.of("partitions", SinkContext.named(places)));
        return Request.positions(listed, which);
    }

    private void requireAssigned(TopicPartition place) {
        if (!partitions.contains(place)) {
            throw new IllegalStateException("No current assignment for partition " + place);
        }
    }

    /** Note the offset after what the task is given of a partition. */
    void give(TopicPartition place, long next) {
        given.put(place, next);
    }

    /** Forget what was given: Python knows of it now, or has gone back. */
    void forgetGiven() {
        given.clear();
    }

    /** Go to an offset, as "offset" of the context does. */
    private Object seek(TopicPartition place, Object offset) {
        requireAssigned(place);
        long to = offset instanceof OffsetAndMetadata at ? at.offset() : (Long) offset;
        context.offset(place, to);
        given.put(place, to);
        return null;
    }
}
