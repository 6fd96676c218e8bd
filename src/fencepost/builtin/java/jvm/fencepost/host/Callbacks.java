package fencepost.host;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;
import javassist.bytecode.BadBytecode;
import javassist.bytecode.ClassFile;
import javassist.bytecode.CodeIterator;
import javassist.bytecode.Descriptor;
import javassist.bytecode.MethodInfo;
import javassist.bytecode.Opcode;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Which methods of a source task's class are its own; "updateOffsets" is KIP-910's, which Kafka Connect does not have. */
record Callbacks(boolean records, boolean places, boolean commits, Method updateOffsets) {
    static Callbacks of(SourceTask task) {
        Method update = method(task, "updateOffsets", Map.class);
        if (update != null) {
            update.setAccessible(true);  // its class need not be public
        }
        Method record = method(task, "commitRecord", SourceRecord.class, RecordMetadata.class);
        boolean hasRecord = isOwn(record);
        return new Callbacks(hasRecord, hasRecord && readsSecond(record), isOwn(method(task, "commit")), update);
    }

    private static boolean isOwn(Method method) {
        return method != null && method.getDeclaringClass() != SourceTask.class;
    }

    /**
     * Say whether a method's code reads its second parameter, as far as can be seen. Debezium's commitRecord does not: to
     * find out where each record is, Python would send its records one by one instead of as columns.
     */
    private static boolean readsSecond(Method method) {
        String file = "/" + method.getDeclaringClass().getName().replace('.', '/') + ".class";
        try (InputStream bytes = method.getDeclaringClass().getResourceAsStream(file)) {
            for (MethodInfo each : new ClassFile(new DataInputStream(bytes)).getMethods()) {
                boolean isIt = each.getName().equals(method.getName())
                        && Descriptor.toString(each.getDescriptor()).equals(parameters(method));
                if (isIt && readsLocal2(each.getCodeAttribute().iterator())) {
                    return true;
                }
            }
            return false;
        } catch (IOException | BadBytecode | RuntimeException error) {  // then it may
            return true;
        }
    }

    private static String parameters(Method method) {
        return Arrays.stream(method.getParameterTypes()).map(Class::getName).collect(Collectors.joining(",", "(", ")"));
    }

    private static boolean readsLocal2(CodeIterator code) throws BadBytecode {
        while (code.hasNext()) {
            int at = code.next();
            int operation = code.byteAt(at);
            boolean isLong = operation == Opcode.ALOAD && code.byteAt(at + 1) == 2;
            if (operation == Opcode.ALOAD_2 || operation == Opcode.WIDE || isLong) {
                return true;
            }
        }
        return false;
    }

    private static Method method(SourceTask task, String name, Class<?>... parameters) {
        try {
            return task.getClass().getMethod(name, parameters);
        } catch (NoSuchMethodException error) {
            return null;
        }
    }

    Map<String, Object> described() {
        return Map.of("records", records, "places", places, "commits", commits, "updates", updateOffsets != null);
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
