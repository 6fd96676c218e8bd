package tests;

import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.StringConverter;

/** Converts strings, and asks the task's gate amid the records of a batch. */
public final class GatedConverter implements Converter {
    private static final int EACH = 5;

    private final StringConverter strings = new StringConverter();
    private int converted;

    @Override
    public void configure(Map<String, ?> configs, boolean isKey) {
        strings.configure(configs, isKey);
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        ask();
        return strings.fromConnectData(topic, schema, value);
    }

    @Override
    public SchemaAndValue toConnectData(String topic, byte[] value) {
        ask();
        return strings.toConnectData(topic, value);
    }

    private void ask() {
        if (++converted % EACH == EACH - 1) {
            Gate.ofThread().ask("conversion during");
        }
    }
}
