package tests;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Timestamp;

/** Values that are no text, by their names. */
final class Odd {
    private Odd() {
    }

    static Object value(String name) {
        return switch (name) {
            case "struct" -> struct();
            case "bytes" -> new byte[] {1};
            case "buffer" -> ByteBuffer.wrap(new byte[] {0, 1}, 1, 1);
            case "map" -> Map.of(1, Map.of("a", true));
            case "equal-numbers" -> Map.of(1, "a", 1.0, "b");
            case "equal-flags" -> Map.of(1L, "a", true, "b");
            case "equal-decimals" -> Map.of(new BigDecimal("1.0"), "a", new BigDecimal("1.00"), "b");
            case "equal-bytes" -> Map.of(new byte[] {1}, "a", new byte[] {1}, "b");
            case "equal-texts" -> Map.of("x", "a", new StringBuilder("x"), "b");
            case "other-keys" -> Map.of(1, "a", 2.5, "b", false, "c", "1", "d", new byte[] {1}, "e");
            case "half-value" -> String.valueOf((char) 0xD800);
            case "ring" -> ring();
            case "rings" -> rings();
            case "wide-ring" -> wideRing();
            case "equal-times" -> Map.of(time(1), "a", time(2), "b");
            case "distinct-times" -> Map.of(new Date(1), 1, new Date(2), 2);
            case "alien" -> new UUID(0, 1);
            default -> null;
        };
    }

    private static Struct struct() {
        Schema schema = SchemaBuilder.struct()
                .field("bytes", Schema.BYTES_SCHEMA)
                .field("list", SchemaBuilder.array(Schema.OPTIONAL_INT32_SCHEMA))
                .field("price", Decimal.schema(2))
                .field("when", Timestamp.SCHEMA);
        return new Struct(schema)
                .put("bytes", new byte[] {1})
                .put("list", Arrays.asList(1, null))
                .put("price", new BigDecimal("1.50"))
                .put("when", new Date(0));
    }

    private static java.sql.Timestamp time(int nanos) {
        java.sql.Timestamp time = new java.sql.Timestamp(0);
        time.setNanos(nanos);
        return time;
    }

    /** A map that contains itself directly and in a list: there are more of it at each level. */
    private static Map<String, Object> rings() {
        Map<String, Object> rings = new HashMap<>();
        rings.put("self", rings);
        rings.put("list", Arrays.asList(rings, rings));
        return rings;
    }

    /** Children, each with its parent. */
    private static Map<String, Object> wideRing() {
        Map<String, Object> parent = new HashMap<>();
        parent.put("children", Collections.nCopies(1000, Map.of("parent", parent)));
        return parent;
    }

    private static List<Object> ring() {
        List<Object> ring = new ArrayList<>();
        ring.add(ring);
        return ring;
    }
}
