package tests;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.storage.Converter;

/** Writes texts from right to left, behind the prefix of its config; refuses "bad". */
public final class ReversedConverter implements Converter {
    private String prefix = "";

    @Override
    public void configure(Map<String, ?> properties, boolean isKey) {
        Object found = properties.get("prefix");
        prefix = found == null ? "" : found.toString();
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("prefix", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "The prefix.");
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        if ("bad".equals(value)) {
            throw new DataException("bad is bad");
        }
        return value == null ? null : (prefix + reversed(value.toString())).getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public SchemaAndValue toConnectData(String topic, byte[] data) {
        if (data == null) {
            return SchemaAndValue.NULL;
        }
        String text = new String(data, StandardCharsets.UTF_8);
        if (!text.startsWith(prefix)) {
            throw new DataException(text + " has no " + prefix);
        }
        return new SchemaAndValue(Schema.STRING_SCHEMA, reversed(text.substring(prefix.length())));
    }

    private static String reversed(String text) {
        return new StringBuilder(text).reverse().toString();
    }
}
