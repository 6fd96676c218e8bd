package tests;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.storage.HeaderConverter;

/** Writes the last character of each header's value, always into the same array. */
public final class ReusingHeaderConverter implements HeaderConverter {
    private final byte[] written = new byte[1];

    @Override
    public byte[] fromConnectHeader(String topic, String name, Schema schema, Object value) {
        byte[] all = value.toString().getBytes(StandardCharsets.UTF_8);
        written[0] = all[all.length - 1];
        return written;
    }

    @Override
    public SchemaAndValue toConnectHeader(String topic, String name, byte[] value) {
        return SchemaAndValue.NULL;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> properties) {
    }

    @Override
    public void close() {
    }
}
