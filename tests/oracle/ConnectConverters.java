import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * What Kafka's own converters and predicates make of values and bytes. Each line of the input is a case.
 *
 * A case of a converter has `class`, `settings`, whether it `is_header`, and either `bytes` (base64 or null), answered
 * with a `schema` and a `value`, or a `schema` and a `value`, answered with `bytes`. A case of a predicate has
 * `predicate`, `settings`, `topic`, `headers` (names) and `is_tombstone`, answered with `result`. `error` answers what
 * is refused.
 *
 * Values are `[kind, content]`: numbers are decimal texts, floats hexadecimal, bytes base64, decimals an unscaled number
 * and a scale, times milliseconds, arrays lists of values, maps lists of pairs, structs lists of the fields' values.
 */
public class ConnectConverters {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

    public static void main(String[] arguments) throws Exception {
        JSON.getFactory().enable(JsonGenerator.Feature.ESCAPE_NON_ASCII);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = NODES.objectNode();
            try {
                answered(JSON.readTree(line), answer);
            } catch (Exception | StackOverflowError error) {
                answer.removeAll();
                answer.put("error", error.getClass().getSimpleName() + ": " + error.getMessage());
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    private static void answered(JsonNode given, ObjectNode answer) throws Exception {
        if (given.has("predicate")) {
            answer.put("result", tested(given));
            return;
        }
        Object converter = Class.forName(given.path("class").asText()).getDeclaredConstructor().newInstance();
        Map<String, Object> settings = settings(given.path("settings"));
        if (given.path("is_header").asBoolean()) {
            settings.put("converter.type", "header");
            ((HeaderConverter) converter).configure(settings);
        } else {
            ((Converter) converter).configure(settings, false);
        }
        if (given.has("bytes")) {
            SchemaAndValue read = read(converter, given, bytes(given.path("bytes")));
            if (read == null) {
                read = SchemaAndValue.NULL; // what ConnectHeaders makes of it
            }
            answer.set("schema", described(read.schema()));
            answer.set("value", written(read.schema(), read.value()));
        } else {
            Schema schema = schema(given.path("schema"));
            byte[] bytes = write(converter, given, schema, value(schema, given.path("value")));
            answer.put("bytes", bytes == null ? null : Base64.getEncoder().encodeToString(bytes));
        }
    }

    private static SchemaAndValue read(Object converter, JsonNode given, byte[] bytes) {
        return given.path("is_header").asBoolean()
            ? ((HeaderConverter) converter).toConnectHeader("t", "h", bytes)
            : ((Converter) converter).toConnectData("t", bytes);
    }

    private static byte[] write(Object converter, JsonNode given, Schema schema, Object value) {
        return given.path("is_header").asBoolean()
            ? ((HeaderConverter) converter).fromConnectHeader("t", "h", schema, value)
            : ((Converter) converter).fromConnectData("t", schema, value);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static boolean tested(JsonNode given) throws Exception {
        Predicate predicate = (Predicate) Class.forName(given.path("predicate").asText()).getDeclaredConstructor().newInstance();
        Map<String, Object> settings = settings(given.path("settings"));
        predicate.config().parse((Map) settings);
        predicate.configure(settings);
        ConnectHeaders headers = new ConnectHeaders();
        given.path("headers").forEach(name -> headers.addString(name.asText(), "v"));
        Object value = given.path("is_tombstone").asBoolean() ? null : "v";
        return predicate.test(
            new SourceRecord(null, null, given.path("topic").asText(), 0, null, null, null, value, 0L, headers));
    }

    private static Schema schema(JsonNode given) {
        if (given.isNull() || given.isMissingNode()) {
            return null;
        }
        SchemaBuilder built = builder(given);
        if (given.path("optional").asBoolean()) {
            built.optional();
        }
        if (given.has("name")) {
            built.name(given.path("name").asText());
        }
        if (given.has("version")) {
            built.version(given.path("version").asInt());
        }
        if (given.has("doc")) {
            built.doc(given.path("doc").asText());
        }
        given.path("parameters").fields().forEachRemaining(one -> built.parameter(one.getKey(), one.getValue().asText()));
        if (given.has("default")) {
            built.defaultValue(value(built.build(), given.path("default")));
        }
        return built.build();
    }

    private static SchemaBuilder builder(JsonNode given) {
        Schema.Type type = Schema.Type.valueOf(given.path("type").asText());
        switch (type) {
            case ARRAY:
                return SchemaBuilder.array(schema(given.path("items")));
            case MAP:
                return SchemaBuilder.map(schema(given.path("keys")), schema(given.path("items")));
            case STRUCT:
                SchemaBuilder struct = SchemaBuilder.struct();
                given.path("fields").forEach(one -> struct.field(one.get(0).asText(), schema(one.get(1))));
                return struct;
            default:
                return SchemaBuilder.type(type);
        }
    }

    private static Object value(Schema schema, JsonNode given) {
        if (given.isNull() || given.isMissingNode()) {
            return null;
        }
        JsonNode content = given.get(1);
        switch (given.get(0).asText()) {
            case "int8": return Byte.valueOf(content.asText());
            case "int16": return Short.valueOf(content.asText());
            case "int32": return Integer.valueOf(content.asText());
            case "int64": return Long.valueOf(content.asText());
            case "big": return new BigInteger(content.asText());
            case "float32": return Float.valueOf(content.asText());
            case "float64": return Double.valueOf(content.asText());
            case "boolean": return content.asBoolean();
            case "string": return content.asText();
            case "bytes": return Base64.getDecoder().decode(content.asText());
            case "buffer": return ByteBuffer.wrap(Base64.getDecoder().decode(content.asText()));
            case "decimal": return new BigDecimal(new BigInteger(content.get(0).asText()), content.get(1).asInt());
            case "time": return new Date(content.asLong());
            case "array":
                List<Object> items = new ArrayList<>();
                content.forEach(one -> items.add(value(schema == null ? null : schema.valueSchema(), one)));
                return items;
            case "map":
                Map<Object, Object> pairs = new LinkedHashMap<>();
                content.forEach(one -> pairs.put(
                    value(schema == null ? null : schema.keySchema(), one.get(0)),
                    value(schema == null ? null : schema.valueSchema(), one.get(1))));
                return pairs;
            default:
                Struct struct = new Struct(schema);
                for (int i = 0; i < content.size(); i++) {
                    Field field = schema.fields().get(i);
                    struct.put(field, value(field.schema(), content.get(i)));
                }
                return struct;
        }
    }

    private static JsonNode described(Schema schema) {
        if (schema == null) {
            return NODES.nullNode();
        }
        ObjectNode found = NODES.objectNode();
        found.put("type", schema.type().name());
        found.put("optional", schema.isOptional());
        if (schema.name() != null) {
            found.put("name", schema.name());
        }
        if (schema.version() != null) {
            found.put("version", schema.version());
        }
        if (schema.doc() != null) {
            found.put("doc", schema.doc());
        }
        if (schema.parameters() != null && !schema.parameters().isEmpty()) {
            ObjectNode parameters = found.putObject("parameters");
            schema.parameters().forEach(parameters::put);
        }
        if (schema.defaultValue() != null) {
            found.set("default", written(schema, schema.defaultValue()));
        }
        switch (schema.type()) {
            case ARRAY:
                found.set("items", described(schema.valueSchema()));
                break;
            case MAP:
                found.set("keys", described(schema.keySchema()));
                found.set("items", described(schema.valueSchema()));
                break;
            case STRUCT:
                ArrayNode fields = found.putArray("fields");
                schema.fields().forEach(field -> fields.addArray().add(field.name()).add(described(field.schema())));
                break;
            default:
        }
        return found;
    }

    private static JsonNode written(Schema schema, Object value) {
        if (value == null) {
            return NODES.nullNode();
        }
        if (value instanceof Byte) {
            return pair("int8", NODES.textNode(value.toString()));
        }
        if (value instanceof Short) {
            return pair("int16", NODES.textNode(value.toString()));
        }
        if (value instanceof Integer) {
            return pair("int32", NODES.textNode(value.toString()));
        }
        if (value instanceof Long) {
            return pair("int64", NODES.textNode(value.toString()));
        }
        if (value instanceof BigInteger) {
            return pair("big", NODES.textNode(value.toString()));
        }
        if (value instanceof Float) {
            return pair("float32", NODES.textNode(Double.toHexString((Float) value)));
        }
        if (value instanceof Double) {
            return pair("float64", NODES.textNode(Double.toHexString((Double) value)));
        }
        if (value instanceof Boolean) {
            return pair("boolean", NODES.booleanNode((Boolean) value));
        }
        if (value instanceof String) {
            return pair("string", NODES.textNode((String) value));
        }
        if (value instanceof byte[]) {
            return pair("bytes", NODES.textNode(Base64.getEncoder().encodeToString((byte[]) value)));
        }
        if (value instanceof ByteBuffer) {
            return pair("bytes", NODES.textNode(Base64.getEncoder().encodeToString(((ByteBuffer) value).array())));
        }
        if (value instanceof BigDecimal) {
            BigDecimal number = (BigDecimal) value;
            return pair("decimal", NODES.arrayNode().add(number.unscaledValue().toString()).add(number.scale()));
        }
        if (value instanceof Date) {
            return pair("time", NODES.numberNode(((Date) value).getTime()));
        }
        ArrayNode content = NODES.arrayNode();
        if (value instanceof List) {
            ((List<?>) value).forEach(one -> content.add(written(null, one)));
            return pair("array", content);
        }
        if (value instanceof Map) {
            ((Map<?, ?>) value).forEach((k, v) -> content.addArray().add(written(null, k)).add(written(null, v)));
            return pair("map", content);
        }
        Struct struct = (Struct) value;
        struct.schema().fields().forEach(field -> content.add(written(field.schema(), struct.getWithoutDefault(field.name()))));
        return pair("struct", content);
    }

    private static ArrayNode pair(String kind, JsonNode content) {
        return NODES.arrayNode().add(kind).add(content);
    }

    private static Map<String, Object> settings(JsonNode given) {
        Map<String, Object> settings = new HashMap<>();
        given.fields().forEachRemaining(one -> settings.put(one.getKey(), one.getValue().asText()));
        return settings;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isTextual() ? Base64.getDecoder().decode(text.asText()) : null;
    }
}
