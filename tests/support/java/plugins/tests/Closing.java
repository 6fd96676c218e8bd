package tests;

import java.nio.file.Path;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A converter, transform and predicate that writes to the file "diary" when it is closed. */
public final class Closing<R extends ConnectRecord<R>>
        implements Converter, HeaderConverter, Transformation<R>, Predicate<R> {
    private Map<String, ?> properties = Map.of();

    @Override
    public void configure(Map<String, ?> given) {
        properties = given;
        if (given.containsKey("fails")) {
            throw new ConnectException("it cannot be configured");
        }
    }

    @Override
    public void configure(Map<String, ?> given, boolean isKey) {
        configure(given);
    }

    @Override
    public void close() {
        Diary.append(Path.of(properties.get("diary").toString()), "closed " + properties.get("alias") + "\n");
    }

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        return null;
    }

    @Override
    public SchemaAndValue toConnectData(String topic, byte[] value) {
        return SchemaAndValue.NULL;
    }

    @Override
    public byte[] fromConnectHeader(String topic, String key, Schema schema, Object value) {
        return null;
    }

    @Override
    public SchemaAndValue toConnectHeader(String topic, String key, byte[] value) {
        return SchemaAndValue.NULL;
    }

    @Override
    public R apply(R record) {
        return record;
    }

    @Override
    public boolean test(R record) {
        return true;
    }
}
