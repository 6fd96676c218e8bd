package fencepost.host;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** Committed offsets by source partition, which are equal if their JSON is. Thread-safe. */
final class Offsets implements OffsetStorageReader {
    private static final ObjectMapper SORTED =
            new ObjectMapper().enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS);

    private final Map<String, Map<String, ?>> committed = new HashMap<>();

    Offsets(Map<Map<String, ?>, Map<String, ?>> offsets) {
        update(offsets);
    }

    /** Take over offsets that have been committed since; null: it was removed. */
    synchronized void update(Map<Map<String, ?>, Map<String, ?>> offsets) {
        offsets.forEach((partition, offset) -> {
            if (offset == null) {
                committed.remove(key(partition));
            } else {
                committed.put(key(partition), offset);
            }
        });
    }

    @Override
    public synchronized <T> Map<String, Object> offset(Map<String, T> partition) {
        Map<String, ?> found = committed.get(key(partition));
        return found == null ? null : new HashMap<>(found);
    }

    @Override
    public <T> Map<Map<String, T>, Map<String, Object>> offsets(Collection<Map<String, T>> partitions) {
        Map<Map<String, T>, Map<String, Object>> found = new HashMap<>();
        partitions.forEach(partition -> found.put(partition, offset(partition)));
        return found;
    }

    private static String key(Map<String, ?> partition) {
        try {
            return SORTED.writeValueAsString(partition);
        } catch (JsonProcessingException error) {
            throw new ConnectException("a source partition cannot be written as JSON", error);
        }
    }
}
