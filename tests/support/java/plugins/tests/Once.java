package tests;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** Filters values that it has seen before. */
public final class Once<R extends ConnectRecord<R>> implements Transformation<R> {
    private final Set<Object> seen = new HashSet<>();

    @Override
    public R apply(R record) {
        return seen.add(record.value()) ? record : null;
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
