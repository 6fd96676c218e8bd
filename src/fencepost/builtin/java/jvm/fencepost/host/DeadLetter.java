package fencepost.host;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Struct;

/**
 * A key or value of a source record as a dead letter has it: bytes as they are, anything else as JSON.
 *
 * Within JSON, bytes are base64, and what JSON cannot express is as Java prints it. A record that cannot be written down
 * fails no task.
 */
final class DeadLetter {
    private static final int MOST_DEPTH = 100;

    private DeadLetter() {
    }

    static byte[] bytes(Object value) {
        if (value == null) {
            return null;
        }
        if (value instanceof byte[] bytes) {
            return bytes;
        }
        if (value instanceof ByteBuffer buffer) {
            return Utils.toArray(buffer);
        }
        try {
            return Wire.JSON.writeValueAsBytes(plain(value, 0));
        } catch (Exception error) {
            return ("\"<" + value.getClass().getName() + ">\"").getBytes(StandardCharsets.UTF_8);
        }
    }

    private static Object plain(Object value, int depth) {
        if (depth > MOST_DEPTH) {
            throw new IllegalArgumentException("it is too deep, or in a circle");
        }
        if (value == null || value instanceof Boolean || value instanceof Number) {
            return value;
        }
        if (value instanceof byte[] bytes) {
            return Base64.getEncoder().encodeToString(bytes);
        }
        if (value instanceof ByteBuffer buffer) {
            return Base64.getEncoder().encodeToString(Utils.toArray(buffer));
        }
        if (value instanceof Struct struct) {
            Map<String, Object> found = new LinkedHashMap<>();
            for (Field each : struct.schema().fields()) {
                found.put(Thrown.whole(each.name()), plain(struct.getWithoutDefault(each.name()), depth + 1));
            }
            return found;
        }
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> found = new LinkedHashMap<>();
            map.forEach((key, each) -> found.put(Thrown.whole(String.valueOf(key)), plain(each, depth + 1)));
            return found;
        }
        if (value instanceof Collection<?> items) {
            List<Object> found = new ArrayList<>();
            items.forEach(each -> found.add(plain(each, depth + 1)));
            return found;
        }
        return Thrown.whole(value instanceof Date date ? date.toInstant().toString() : String.valueOf(value));
    }
}
