import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.StringConverter;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * What Kafka's own converters and transforms make of JSON. Each line of the input is a case, answered with a line.
 *
 * A case has `value` and `key`, each the text of a message or null, `converter` (settings of JsonConverter), and perhaps
 * `headers` (pairs of a name and a text), `timestamp`, `transform` (class and settings), `sink`, `text`: whether
 * StringConverter writes what comes out, and `whole`: whether the answer has the record's partition and timestamp, too.
 * The answer is `{"value":…,"key":…,"headers":…}`, texts or null, `{"filtered":true}` or `{"error":…}`. A case that has
 * only `settings`, a class, is answered with the names of its settings.
 */
public class ConnectValues {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answered(JSON.readTree(line), answer);
            } catch (Exception error) {
                answer.removeAll();
                answer.put("error", String.valueOf(error.getMessage()));
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    private static void answered(JsonNode given, ObjectNode answer) throws Exception {
        if (given.has("settings")) {
            ArrayNode names = answer.withArray("settings");
            new TreeSet<>(transformation(given.path("settings").asText()).config().names()).forEach(names::add);
            return;
        }
        JsonConverter converter = new JsonConverter();
        converter.configure(settings(given.path("converter")), false);
        SchemaAndValue key = converter.toConnectData("t", bytes(given.path("key")));
        SchemaAndValue value = converter.toConnectData("t", bytes(given.path("value")));
        long timestamp = given.path("timestamp").asLong(1700000000123L);
        ConnectRecord<?> record = given.path("sink").asBoolean()
            ? new SinkRecord("t", 3, key.schema(), key.value(), value.schema(), value.value(), 7L, timestamp, TimestampType.CREATE_TIME)
            : new SourceRecord(null, null, "t", 3, key.schema(), key.value(), value.schema(), value.value(), timestamp);
        for (JsonNode header : given.path("headers")) {
            record.headers().add(header.get(0).asText(), converter.toConnectData("t", bytes(header.get(1))));
        }
        if (given.has("transform")) {
            record = transformed(given.path("transform"), record);
        }
        if (record == null) {
            answer.put("filtered", true);
            return;
        }
        answer.put("topic", record.topic());
        if (given.path("whole").asBoolean()) {
            answer.put("partition", record.kafkaPartition());
            answer.put("timestamp", record.timestamp());
        }
        for (Header header : record.headers()) {
            ArrayNode pair = answer.withArray("headers").addArray();
            pair.add(header.key());
            pair.add(text(converter.fromConnectData("t", header.schema(), header.value())));
        }
        if (given.path("text").asBoolean()) {
            StringConverter strings = new StringConverter();
            strings.configure(new HashMap<>(), false);
            answer.put("value", text(strings.fromConnectData("t", record.valueSchema(), record.value())));
            return;
        }
        answer.put("key", text(converter.fromConnectData("t", record.keySchema(), record.key())));
        answer.put("value", text(converter.fromConnectData("t", record.valueSchema(), record.value())));
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static ConnectRecord<?> transformed(JsonNode given, ConnectRecord<?> record) throws Exception {
        Map<String, Object> settings = settings(given);
        Transformation transform = transformation((String) settings.remove("type"));
        transform.configure(settings);
        return (ConnectRecord<?>) transform.apply(record);
    }

    private static Transformation<?> transformation(String name) throws Exception {
        return (Transformation<?>) Class.forName(name).getDeclaredConstructor().newInstance();
    }

    private static Map<String, Object> settings(JsonNode given) {
        Map<String, Object> settings = new HashMap<>();
        given.fields().forEachRemaining(one -> settings.put(one.getKey(), one.getValue().asText()));
        return settings;
    }

    private static byte[] bytes(JsonNode text) {
        return text.isTextual() ? text.asText().getBytes(StandardCharsets.UTF_8) : null;
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }
}
