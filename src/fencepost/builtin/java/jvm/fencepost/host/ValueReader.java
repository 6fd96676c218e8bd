package fencepost.host;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.ConnectSchema;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;

/** Reads what ValueWriter, or Python, has written. */
final class ValueReader {
    private final ByteBuffer in;

    ValueReader(ByteBuffer in) {
        this.in = in.order(ByteOrder.LITTLE_ENDIAN);
    }

    List<Object> column(Schema schema, int count) {
        byte[] present = null;
        int found = count;
        if (in.get() != 0) {
            present = new byte[count];
            in.get(present);
            found = 0;
            for (byte each : present) {
                found += each;
            }
        }
        List<Object> values = schema == null ? union(found) : typed(schema, found);
        if (present == null) {
            return values;
        }
        List<Object> all = new ArrayList<>(count);
        int next = 0;
        for (byte each : present) {
            all.add(each == 0 ? null : values.get(next++));
        }
        return all;
    }

    private List<Object> typed(Schema schema, int count) {
        switch (schema.type()) {
            case ARRAY:
                return lists(schema.valueSchema(), count);
            case MAP:
                return maps(schema.keySchema(), schema.valueSchema(), count);
            case STRUCT:
                return structs(schema, count);
            case STRING:
                return strings(count);
            case BYTES:
                return unionOf(ValueForm.kindOfBytes(schema), count);
            default:
                List<Object> plain = numbers(schema, count);
                plain.replaceAll(each -> logical(schema, each));
                return plain;
        }
    }

    /** Return the date or time that a number stands for, if the schema is that of one. */
    private static Object logical(Schema schema, Object plain) {
        if (schema.name() == null) {
            return plain;
        } else if (plain instanceof Integer days && schema.name().equals(Date.LOGICAL_NAME)) {
            return Date.toLogical(schema, days);
        } else if (plain instanceof Integer ms && schema.name().equals(Time.LOGICAL_NAME)) {
            return Time.toLogical(schema, ms);
        }
        return plain instanceof Long ms && schema.name().equals(Timestamp.LOGICAL_NAME)
                ? Timestamp.toLogical(schema, ms) : plain;
    }

    private List<Object> numbers(Schema schema, int count) {
        List<Object> found = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            found.add(switch (schema.type()) {
                case INT8 -> (Object) in.get();
                case INT16 -> in.getShort();
                case INT32 -> in.getInt();
                case INT64 -> in.getLong();
                case FLOAT32 -> in.getFloat();
                case FLOAT64 -> in.getDouble();
                default -> in.get() != 0;
            });
        }
        return found;
    }

    private List<Object> structs(Schema schema, int count) {
        List<Object> found = new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            found.add(new Struct(schema));
        }
        for (Field field : schema.fields()) {
            List<Object> members = column(field.schema(), count);
            for (int i = 0; i < count; i++) {
                if (members.get(i) != null) {
                    ((Struct) found.get(i)).put(field, members.get(i));
                }
            }
        }
        return found;
    }

    private int[] integers(int count) {
        int[] found = new int[count];
        in.asIntBuffer().get(found);
        in.position(in.position() + 4 * count);
        return found;
    }

    private List<Object> strings(int count) {
        int[] lengths = integers(count);
        List<Object> found = new ArrayList<>(count);
        for (int length : lengths) {
            found.add(characters(length));
        }
        return found;
    }

    private List<Object> byteStrings(int count) {
        int[] lengths = integers(count);
        List<Object> found = new ArrayList<>(count);
        for (int length : lengths) {
            byte[] data = new byte[length];
            in.get(data);
            found.add(data);
        }
        return found;
    }

    private List<Object> lists(Schema items, int count) {
        int[] lengths = integers(count);
        List<Object> all = column(items, Arrays.stream(lengths).sum());
        List<Object> found = new ArrayList<>(count);
        int start = 0;
        for (int length : lengths) {
            found.add(new ArrayList<>(all.subList(start, start + length)));
            start += length;
        }
        return found;
    }

    private List<Object> maps(Schema keySchema, Schema valueSchema, int count) {
        int[] sizes = integers(count);
        int total = Arrays.stream(sizes).sum();
        List<Object> keys = column(keySchema, total);
        List<Object> values = column(valueSchema, total);
        List<Object> found = new ArrayList<>(count);
        int next = 0;
        for (int size : sizes) {
            Map<Object, Object> map = new LinkedHashMap<>();
            for (int i = 0; i < size; i++) {
                map.put(keys.get(next), values.get(next));
                next++;
            }
            found.add(map);
        }
        return found;
    }

    private List<Object> union(int count) {
        byte[] kinds = new byte[count];
        in.get(kinds);
        int[] counts = new int[ValueForm.TIME + 1];
        for (byte each : kinds) {
            counts[each]++;
        }
        List<List<Object>> byKind = new ArrayList<>();
        for (int kind = 0; kind < counts.length; kind++) {
            byKind.add(counts[kind] == 0 ? List.of() : unionOf(kind, counts[kind]));
        }
        int[] next = new int[ValueForm.TIME + 1];
        List<Object> found = new ArrayList<>(count);
        for (byte each : kinds) {
            found.add(byKind.get(each).get(next[each]++));
        }
        return found;
    }

    private List<Object> unionOf(int kind, int count) {
        switch (kind) {
            case ValueForm.BOOLEAN:
                return numbers(Schema.BOOLEAN_SCHEMA, count);
            case ValueForm.INTEGER:
                return numbers(Schema.INT64_SCHEMA, count);
            case ValueForm.FLOAT:
                return numbers(Schema.FLOAT64_SCHEMA, count);
            case ValueForm.TEXT:
                return strings(count);
            case ValueForm.BYTES:
                return byteStrings(count);
            case ValueForm.LIST:
                return lists(null, count);
            case ValueForm.MAP:
                return maps(null, null, count);
            case ValueForm.TIME:
                List<Object> times = numbers(Schema.INT64_SCHEMA, count);
                times.replaceAll(each -> new java.util.Date((Long) each));
                return times;
            default:
                int[] scales = kind == ValueForm.DECIMAL ? integers(count) : null;
                List<Object> found = byteStrings(count);
                for (int i = 0; i < count; i++) {
                    BigInteger number = new BigInteger((byte[]) found.get(i));
                    found.set(i, scales == null ? number : new BigDecimal(number, scales[i]));
                }
                return found;
        }
    }

    Schema definition() {
        Schema.Type type = Schema.Type.values()[in.get()];
        int flags = in.get();
        String name = (flags & ValueForm.HAS_NAME) == 0 ? null : text();
        Integer version = (flags & ValueForm.HAS_VERSION) == 0 ? null : (Integer) in.getInt();
        String doc = (flags & ValueForm.HAS_DOC) == 0 ? null : text();
        int count = in.getInt();
        Map<String, String> parameters = count == 0 ? null : new LinkedHashMap<>();
        for (int i = 0; i < count; i++) {
            parameters.put(text(), text());
        }
        Schema keys = type == Schema.Type.MAP ? definition() : null;
        Schema values = type == Schema.Type.MAP || type == Schema.Type.ARRAY ? definition() : null;
        List<Field> fields = null;
        if (type == Schema.Type.STRUCT) {
            fields = new ArrayList<>();
            int members = in.getInt();
            for (int i = 0; i < members; i++) {
                fields.add(new Field(text(), i, definition()));
            }
        }
        boolean isOptional = (flags & ValueForm.OPTIONAL) != 0;
        Object otherwise = (flags & ValueForm.HAS_DEFAULT) == 0 ? null
                : typed(new ConnectSchema(type, isOptional, null, name, version, doc, parameters, fields, keys, values), 1)
                        .get(0);
        return new ConnectSchema(type, isOptional, otherwise, name, version, doc, parameters, fields, keys, values);
    }

    String text() {
        return characters(in.getInt());
    }

    int integer() {
        return in.getInt();
    }

    byte[] bytes() {
        byte[] found = new byte[in.getInt()];
        in.get(found);
        return found;
    }

    private String characters(int length) {
        char[] found = new char[length];
        in.asCharBuffer().get(found);
        in.position(in.position() + 2 * length);
        return new String(found);
    }
}
