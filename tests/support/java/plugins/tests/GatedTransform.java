package tests;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** Changes nothing, and asks the test amid the records of a batch, at a gate of its own. */
public final class GatedTransform<R extends ConnectRecord<R>> implements Transformation<R> {
    private static final int EACH = 5;

    private Gate gate;
    private int seen;

    @Override
    public void configure(Map<String, ?> properties) {
        gate = Gate.open(Map.of("name", properties.get("connector").toString(), "gate", properties.get("gate").toString()));
    }

    @Override
    public R apply(R record) {
        if (++seen % EACH == EACH - 1) {
            gate.ask("transform during");
        }
        return record;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("connector", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Whose gate it is.")
            .define("gate", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "The port of the test.");
    }

    @Override
    public void close() {
        if (gate != null) {
            gate.close();
        }
    }
}
