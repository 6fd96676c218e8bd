package fencepost.host;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** A message from Python: JSON and buffers. */
record Request(Map<String, Object> head, ByteBuffer bytes) {
    String operation() {
        return text("op");
    }

    String text(String key) {
        return (String) head.get(key);
    }

    boolean flag(String key) {
        return Boolean.TRUE.equals(head.get(key));
    }

    long number(String key, long otherwise) {
        Object found = head.get(key);
        return found == null ? otherwise : ((Number) found).longValue();
    }

    List<?> list(String key) {
        Object found = head.get(key);
        return found == null ? List.of() : (List<?>) found;
    }

    @SuppressWarnings("unchecked")
    Map<String, String> properties(String key) {
        return new HashMap<>((Map<String, String>) head.get(key));
    }

    JavaClass javaClass(String key) {
        return JavaClass.of(head.get(key));
    }

    /** Return the classes that the names in a config mean. */
    Map<String, JavaClass> classes() {
        Map<String, JavaClass> found = new HashMap<>();
        Map<?, ?> named = (Map<?, ?>) head.getOrDefault("classes", Map.of());
        named.forEach((name, described) -> found.put((String) name, JavaClass.of(described)));
        return found;
    }

    /** Return pairs of a source partition and its offset. */
    @SuppressWarnings("unchecked")
    Map<Map<String, ?>, Map<String, ?>> offsets(String key) {
        Map<Map<String, ?>, Map<String, ?>> found = new HashMap<>();
        for (Object each : list(key)) {
            List<Map<String, ?>> pair = (List<Map<String, ?>>) each;
            found.put(pair.get(0), pair.get(1));
        }
        return found;
    }

    /** Return the offsets of a group by partition. */
    Map<TopicPartition, Long> positions(String key) {
        return positions(list(key), 2);
    }

    /** Return the number at a place in each of the lists, which begin with a partition; it may be null. */
    static Map<TopicPartition, Long> positions(List<?> listed, int place) {
        Map<TopicPartition, Long> found = new HashMap<>();
        for (Object each : listed) {
            found.put(partition((List<?>) each), (Long) ((List<?>) each).get(place));
        }
        return found;
    }

    /** Return the partition that a list names first: its topic and its number. */
    static TopicPartition partition(List<?> parts) {
        return new TopicPartition((String) parts.get(0), ((Number) parts.get(1)).intValue());
    }

    /** Return the buffer of that name, little-endian; null if there is none. */
    ByteBuffer buffer(String name) {
        int start = 0;
        for (Object each : list("buffers")) {
            List<?> pair = (List<?>) each;
            int size = ((Number) pair.get(1)).intValue();
            if (pair.get(0).equals(name)) {
                return bytes.slice(start, size).order(ByteOrder.LITTLE_ENDIAN);
            }
            start += Wire.padded(size);
        }
        return null;
    }
}
