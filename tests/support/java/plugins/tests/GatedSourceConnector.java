package tests;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;

/** Numbered records, as many as "file.TASK" has bytes; `plugin/numbered_source.py` is the same in Python. */
public final class GatedSourceConnector extends SourceConnector {
    static final ConfigDef SETTINGS = new ConfigDef()
        .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where the numbers go.")
        .define("file", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The files whose sizes say how many.")
        .define("gate", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "The port of the test.")
        .define("transaction", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "How many records one of its own has.");

    private Map<String, String> properties;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> given) {
        properties = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return GatedSourceTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        List<Map<String, String>> found = new ArrayList<>();
        for (int task = 0; task < maxTasks; task++) {
            Map<String, String> own = new HashMap<>(properties);
            own.put("line", String.valueOf(task));
            found.add(own);
        }
        return found;
    }

    @Override
    public void stop() {
    }

    @Override
    public ConfigDef config() {
        return SETTINGS;
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> properties) {
        return ExactlyOnceSupport.SUPPORTED;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> properties) {
        return ConnectorTransactionBoundaries.SUPPORTED;
    }
}
