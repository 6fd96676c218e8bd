package tests;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * Counts, once in each of its tasks; see `NumberSourceTask`. With "grows" it begins with one task, and asks for new task
 * configs at once. It refuses offsets below 0.
 */
public final class NumberSourceConnector extends SourceConnector {
    static final ConfigDef SETTINGS = new ConfigDef()
        .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where the numbers go.")
        .define("count", ConfigDef.Type.LONG, 1000L, ConfigDef.Range.atLeast(0), ConfigDef.Importance.HIGH, "How many.")
        .define("batch", ConfigDef.Type.INT, 10, ConfigDef.Importance.LOW, "How many a poll gives.")
        .define("pause.ms", ConfigDef.Type.LONG, 0L, ConfigDef.Importance.LOW, "How long a poll takes.")
        .define("grows", ConfigDef.Type.BOOLEAN, false, ConfigDef.Importance.LOW, "Whether it begins with one task.")
        .define("passphrase", ConfigDef.Type.PASSWORD, "", ConfigDef.Importance.LOW, "Not used.")
        .define("act", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "What the task does instead, at act.at.")
        .define("act.in", ConfigDef.Type.STRING, "poll", ConfigDef.Importance.LOW, "In which call: start, poll, commit.")
        .define("act.once", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "A file that is made then; it acts once.")
        .define("act.at", ConfigDef.Type.LONG, -1L, ConfigDef.Importance.LOW, "A number.");

    private Map<String, String> properties;
    private boolean isSmall;

    @Override
    public String version() {
        return "3.14";
    }

    @Override
    public void start(Map<String, String> properties) {
        this.properties = properties;
        isSmall = Boolean.parseBoolean(properties.get("grows"));
        PluginMetrics metrics = context().pluginMetrics();
        metrics.addMetric(metrics.metricName("starts", "How often it was started.", new LinkedHashMap<>()),
            (Gauge<Integer>) (config, now) -> 1);
    }

    @Override
    public Class<? extends Task> taskClass() {
        return NumberSourceTask.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int maxTasks) {
        List<Map<String, String>> found = new ArrayList<>();
        for (int task = 0; task < (isSmall ? 1 : maxTasks); task++) {
            Map<String, String> own = new HashMap<>(properties);
            own.put("part", String.valueOf(task));
            found.add(own);
        }
        if (isSmall) {
            isSmall = false;
            new Thread(context()::requestTaskReconfiguration).start();
        }
        return found;
    }

    @Override
    public boolean alterOffsets(Map<String, String> properties, Map<Map<String, ?>, Map<String, ?>> offsets) {
        offsets.forEach((partition, offset) -> {
            if (offset != null && ((Number) offset.get("number")).longValue() < 0) {
                throw new ConnectException("a number is at least 0: " + offset);
            }
        });
        return true;
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
