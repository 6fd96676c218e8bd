package fencepost.host;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.errors.DataException;

/** Writes Connect's values column by column, in the form that Python's module "value_writer" describes. */
final class ValueWriter {
    private static final long FIRST_MS = -62_135_596_800_000L;  // the years 1 to 9999, which Python has
    private static final long LAST_MS = 253_402_300_799_999L;
    /** Two of one of these classes are equal in Python only if they are in Java. */
    private static final Set<?> AS_DISTINCT =
            new HashSet<>(Arrays.asList(String.class, Integer.class, Long.class, Short.class, Byte.class, Boolean.class));
    private static final int MOST_BITS = 13_000;
    private static final int MOST_UNSEEN_DEPTH = 12;  // from here on containers are looked at before they are written
    private static final int MOST_UNSEEN_VALUES = 10_000;

    private ByteBuffer out = ByteBuffer.allocate(1 << 12).order(ByteOrder.LITTLE_ENDIAN);
    private int depth;
    private boolean isShallow;  // what is being written was looked at

    ByteBuffer taken() {
        return out.flip();
    }

    void column(Schema schema, List<?> values) {
        requireDepth(++depth);
        List<Object> found = new ArrayList<>(values.size());
        byte[] present = new byte[values.size()];
        for (int i = 0; i < present.length; i++) {
            if (values.get(i) != null) {
                present[i] = 1;
                found.add(values.get(i));
            }
        }
        if (found.size() == present.length) {
            put(0);
        } else {
            put(1);
            room(present.length).put(present);
        }
        if (schema == null) {
            union(found);
        } else {
            requireOf(schema, found);
            typed(schema, found);
        }
        depth--;
    }

    private static void requireDepth(int depth) {
        if (depth > ValueForm.MOST_DEPTH) {
            throw new DataException(
                    "what is nested more than " + ValueForm.MOST_DEPTH + " levels deep cannot be handed to Python");
        }
    }

    /** Refuse structs of another schema, as converters do. Defaults may be such: they were made before their schema. */
    private static void requireOf(Schema schema, List<Object> values) {
        for (Object each : values) {
            if (each instanceof Struct struct && !struct.schema().equals(schema)) {
                throw new DataException("Mismatching schema.");
            }
        }
    }

    private void typed(Schema schema, List<Object> values) {
        switch (schema.type()) {
            case ARRAY -> lists(schema.valueSchema(), values);
            case MAP -> maps(schema.keySchema(), schema.valueSchema(), values);
            case STRUCT -> {
                for (Field field : schema.fields()) {
                    List<Object> members = new ArrayList<>(values.size());
                    values.forEach(each -> members.add(((Struct) each).getWithoutDefault(field.name())));
                    column(field.schema(), members);
                }
            }
            case STRING -> strings(values);
            case BYTES -> unionOf(ValueForm.kindOfBytes(schema), values);
            default -> values.forEach(each -> number(schema.type(), plain(schema, each)));
        }
    }

    private void number(Schema.Type type, Object value) {
        switch (type) {
            case INT8 -> put((Byte) value);
            case INT16 -> room(2).putShort((Short) value);
            case INT32 -> integer((Integer) value);
            case INT64 -> room(8).putLong((Long) value);
            case FLOAT32 -> room(4).putFloat((Float) value);
            case FLOAT64 -> room(8).putDouble((Double) value);
            case BOOLEAN -> put((Boolean) value ? 1 : 0);
            default -> throw new IllegalStateException(type.toString());
        }
    }

    /** Return the number that stands for a date or a time; a number stands for itself. */
    private static Object plain(Schema schema, Object value) {
        if (!(value instanceof java.util.Date date)) {
            return value;
        }
        return switch (String.valueOf(schema.name())) {
            case Date.LOGICAL_NAME -> (Object) Date.fromLogical(schema, date);
            case Time.LOGICAL_NAME -> Time.fromLogical(schema, date);
            default -> Timestamp.fromLogical(schema, date);
        };
    }

    private static byte[] bytes(Object value) {
        return value instanceof ByteBuffer buffer ? Utils.toArray(buffer) : (byte[]) value;
    }

    private void strings(List<Object> values) {
        values.forEach(each -> integer(((CharSequence) each).length()));
        values.forEach(each -> characters(each.toString()));
    }

    private void byteStrings(List<byte[]> values) {
        values.forEach(each -> integer(each.length));
        values.forEach(each -> room(each.length).put(each));
    }

    private void lists(Schema items, List<Object> values) {
        List<Object> all = new ArrayList<>();
        for (Object each : values) {
            integer(((List<?>) each).size());
            all.addAll((List<?>) each);
        }
        column(items, all);
    }

    private void maps(Schema keySchema, Schema valueSchema, List<Object> values) {
        if (keySchema != null && !keySchema.type().isPrimitive()) {
            throw new DataException("a map with keys of type " + keySchema.type() + " cannot be handed to Python");
        }
        List<Object> keys = new ArrayList<>();
        List<Object> found = new ArrayList<>();
        for (Object each : values) {
            integer(((Map<?, ?>) each).size());
            for (Object key : ((Map<?, ?>) each).keySet()) {
                if (key instanceof List || key instanceof Map) {
                    throw new DataException("a map with keys of " + key.getClass() + " cannot be handed to Python");
                }
                keys.add(key);
            }
            requireDistinct(keySchema, ((Map<?, ?>) each).keySet());
            found.addAll(((Map<?, ?>) each).values());
        }
        column(keySchema, keys);
        column(valueSchema, found);
    }

    /** Refuse a map some of whose keys are one in Python, which would have the last one's value and no other. */
    private static void requireDistinct(Schema schema, Set<?> keys) {
        Object first = keys.isEmpty() ? null : keys.iterator().next();
        Class<?> kind = first == null ? null : first.getClass();
        if (AS_DISTINCT.contains(kind) && keys.stream().allMatch(each -> each != null && each.getClass() == kind)) {
            return;
        }
        Set<Object> found = new HashSet<>();
        for (Object each : keys) {
            if (!found.add(each == null ? null : inPython(schema, each))) {
                throw new DataException("a map with keys that are equal in Python cannot be handed to it");
            }
        }
    }

    /** Return an object that equals those of keys which are equal in Python, where 1 is 1.0 and true. */
    private static Object inPython(Schema schema, Object key) {
        Object value = schema == null ? key : plain(schema, key);
        if (value instanceof java.util.Date date) {
            return new java.util.Date(date.getTime());  // a subclass may equal fewer
        } else if (value instanceof CharSequence) {
            return value.toString();
        } else if (value instanceof byte[] || value instanceof ByteBuffer) {
            return ByteBuffer.wrap(bytes(value));
        } else if (value instanceof Boolean flag) {
            return flag ? BigDecimal.ONE : BigDecimal.ZERO;
        } else if (value instanceof Double || value instanceof Float) {
            double number = schema == null ? asDouble(value) : ((Number) value).doubleValue();
            return Double.isFinite(number) ? new BigDecimal(number).stripTrailingZeros() : (Object) number;
        } else if (value instanceof BigDecimal number) {
            return number.stripTrailingZeros();
        }
        return value instanceof Number ? new BigDecimal(value.toString()).stripTrailingZeros() : value;
    }

    private static double asDouble(Object number) {  // 0.1 of a Float, too
        return Double.parseDouble(number.toString());
    }

    /** Values without a schema: the kind of each, then those of each kind together. */
    private void union(List<Object> values) {
        boolean wasShallow = isShallow;
        if (!isShallow && (depth > MOST_UNSEEN_DEPTH || values.size() > MOST_UNSEEN_VALUES)) {
            requireShallow(values, depth, Collections.newSetFromMap(new IdentityHashMap<>()));
            isShallow = true;
        }
        Map<Integer, List<Object>> byKind = new TreeMap<>();
        for (Object each : values) {
            int kind = kind(each);
            put(kind);
            byKind.computeIfAbsent(kind, ignored -> new ArrayList<>()).add(each);
        }
        byKind.forEach(this::unionOf);
        isShallow = wasShallow;
    }

    /**
     * Refuse values at a depth that contain themselves, or are nested too deeply.
     *
     * Columns are written breadth first: what contains itself several times would outgrow memory before it is too deep.
     * This goes depth first, and through each container once.
     */
    private static void requireShallow(Collection<?> values, int depth, Set<Object> seen) {
        requireDepth(depth);
        for (Object each : values) {
            if ((each instanceof List || each instanceof Map) && !seen.contains(each)) {
                requireShallow(each instanceof Map<?, ?> map ? map.values() : (List<?>) each, depth + 1, seen);
                seen.add(each);
            }
        }
    }

    private static int kind(Object value) {
        if (value instanceof Boolean) {
            return ValueForm.BOOLEAN;
        } else if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
            return ValueForm.INTEGER;
        } else if (value instanceof Double || value instanceof Float) {
            return ValueForm.FLOAT;
        } else if (value instanceof CharSequence) {  // Avro's, too
            return ValueForm.TEXT;
        } else if (value instanceof byte[] || value instanceof ByteBuffer) {
            return ValueForm.BYTES;
        } else if (value instanceof List) {
            return ValueForm.LIST;
        } else if (value instanceof Map) {
            return ValueForm.MAP;
        } else if (value instanceof BigInteger) {
            return ValueForm.LARGE_INTEGER;
        } else if (value instanceof BigDecimal) {
            return ValueForm.DECIMAL;
        } else if (value instanceof java.util.Date date && date.getTime() >= FIRST_MS && date.getTime() <= LAST_MS) {
            return ValueForm.TIME;
        }
        String when = value instanceof java.util.Date date ? " (" + date.getTime() + " ms after 1970)" : "";
        throw new DataException("a value of " + value.getClass() + when + " without a schema cannot be handed to Python");
    }

    private void unionOf(int kind, List<Object> values) {
        switch (kind) {
            case ValueForm.BOOLEAN -> values.forEach(each -> number(Schema.Type.BOOLEAN, each));
            case ValueForm.INTEGER -> values.forEach(each -> room(8).putLong(((Number) each).longValue()));
            case ValueForm.FLOAT -> values.forEach(each -> room(8).putDouble(asDouble(each)));
            case ValueForm.TEXT -> strings(values);
            case ValueForm.BYTES -> byteStrings(values.stream().map(ValueWriter::bytes).toList());
            case ValueForm.LIST -> lists(null, values);
            case ValueForm.MAP -> maps(null, null, values);
            case ValueForm.LARGE_INTEGER ->
                byteStrings(values.stream().map(each -> ((BigInteger) each).toByteArray()).toList());
            case ValueForm.DECIMAL -> {
                for (Object each : values) {
                    if (((BigDecimal) each).unscaledValue().bitLength() > MOST_BITS) {
                        throw new DataException("a decimal with more than 4,000 digits cannot be handed to Python");
                    }
                    integer(((BigDecimal) each).scale());
                }
                byteStrings(values.stream().map(each -> ((BigDecimal) each).unscaledValue().toByteArray()).toList());
            }
            default -> values.forEach(each -> room(8).putLong(((java.util.Date) each).getTime()));
        }
    }

    void definition(Schema schema) {
        requireDepth(++depth);
        put(schema.type().ordinal());
        int flags = (schema.isOptional() ? ValueForm.OPTIONAL : 0)
                | (schema.defaultValue() != null ? ValueForm.HAS_DEFAULT : 0)
                | (schema.name() != null ? ValueForm.HAS_NAME : 0)
                | (schema.version() != null ? ValueForm.HAS_VERSION : 0)
                | (schema.doc() != null ? ValueForm.HAS_DOC : 0);
        put(flags);
        if (schema.name() != null) {
            text(schema.name());
        }
        if (schema.version() != null) {
            integer(schema.version());
        }
        if (schema.doc() != null) {
            text(schema.doc());
        }
        Map<String, String> parameters = schema.parameters() == null ? Map.of() : schema.parameters();
        integer(parameters.size());
        parameters.forEach((key, value) -> {
            text(key);
            text(value);
        });
        switch (schema.type()) {
            case ARRAY -> definition(schema.valueSchema());
            case MAP -> {
                definition(schema.keySchema());
                definition(schema.valueSchema());
            }
            case STRUCT -> {
                integer(schema.fields().size());
                for (Field field : schema.fields()) {
                    text(field.name());
                    definition(field.schema());
                }
            }
            default -> { }
        }
        if (schema.defaultValue() != null) {
            typed(schema, List.of(schema.defaultValue()));
        }
        depth--;
    }

    void text(String text) {
        integer(text.length());
        characters(text);
    }

    void integer(int value) {
        room(4).putInt(value);
    }

    void raw(ByteBuffer bytes) {
        room(bytes.remaining()).put(bytes.duplicate());
    }

    private void put(int value) {
        room(1).put((byte) value);
    }

    private void characters(String text) {
        room(2 * text.length());
        out.asCharBuffer().put(text);
        out.position(out.position() + 2 * text.length());
    }

    private ByteBuffer room(int size) {
        if (out.remaining() < size) {
            int needed = Math.addExact(out.position(), size);
            ByteBuffer larger = ByteBuffer.allocate((int) Math.min(Integer.MAX_VALUE - 8, Math.max(2L * out.capacity(), needed)));
            out = larger.order(ByteOrder.LITTLE_ENDIAN).put(out.flip());
        }
        return out;
    }
}
