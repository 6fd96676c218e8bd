package tests;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.SinkConnector;

/** Writes records to "file", each with its place and offset. */
public final class LinesSinkConnector extends SinkConnector {
    private Map<String, String> properties = Map.of();

    @Override
    public String version() {
        return "2.71";
    }

    @Override
    public Class<? extends Task> taskClass() {
        return LinesSinkTask.class;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where lines go.");
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
