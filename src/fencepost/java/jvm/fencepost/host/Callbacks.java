package fencepost.host;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Which methods of a source task's class are its own; "updateOffsets" is KIP-910's, which Kafka Connect does not have. */
record Callbacks(boolean records, boolean commits, Method updateOffsets) {
    static Callbacks of(SourceTask task) {
        Method update = method(task, "updateOffsets", Map.class);
        if (update != null) {
            update.setAccessible(true);  // its class need not be public
        }
        return new Callbacks(
                isOverridden(task, "commitRecord", SourceRecord.class, RecordMetadata.class),
                isOverridden(task, "commit"),
                update);
    }

    private static boolean isOverridden(SourceTask task, String name, Class<?>... parameters) {
        Method found = method(task, name, parameters);
        return found != null && found.getDeclaringClass() != SourceTask.class;
    }

    private static Method method(SourceTask task, String name, Class<?>... parameters) {
        try {
            return task.getClass().getMethod(name, parameters);
        } catch (NoSuchMethodException error) {
            return null;
        }
    }

    Map<String, Object> described() {
        return Map.of("records", records, "commits", commits, "updates", updateOffsets != null);
    }

    /** Return the task's changes of offsets that are about to be committed. */
    @SuppressWarnings("unchecked")
    Map<Map<String, ?>, Map<String, ?>> updated(SourceTask task, Map<Map<String, ?>, Map<String, ?>> offsets)
            throws Exception {
        if (updateOffsets == null) {
            return Map.of();
        }
        try {
            Object found = updateOffsets.invoke(task, offsets);
            return found == null ? Map.of() : (Map<Map<String, ?>, Map<String, ?>>) found;
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Exception cause) {
                throw cause;
            }
            throw error;
        }
    }
}
