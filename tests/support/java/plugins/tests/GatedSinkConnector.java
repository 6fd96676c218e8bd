package tests;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;

/** Writes what happens to "file"; `plugin/gated_sink.py` is the same in Python. */
public final class GatedSinkConnector extends SinkConnector {
    private Map<String, String> properties = Map.of();

    @Override
    public String version() {
        return "1";
    }

    @Override
    public Class<? extends Task> taskClass() {
        return GatedSinkTask.class;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
            .define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where lines go.")
            .define("gate", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "The port of the test.");
    }

    @Override
    public void start(Map<String, String> given) {
        properties = given;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return Collections.nCopies(most, properties);
    }

    @Override
    public void stop() {
    }
}
