package tests;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.transforms.Transformation;

/** Refuses the values "bad" and "late", filters "drop", and has trouble with "later" as often as its config says. */
public final class Picky<R extends ConnectRecord<R>> implements Transformation<R>, Monitorable {
    private int troubles;
    private volatile int seen;

    @Override
    public R apply(R record) {
        seen++;
        if ("bad".equals(record.value())) {
            throw new DataException("bad is bad");
        }
        if ("later".equals(record.value()) && troubles-- > 0) {
            throw new RetriableException("not yet");
        }
        if ("late".equals(record.value())) {
            throw new TimeoutException("too late");
        }
        return "drop".equals(record.value()) ? null : record;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("troubles", ConfigDef.Type.INT, 0, ConfigDef.Importance.LOW, "How often.");
    }

    @Override
    public void configure(Map<String, ?> properties) {
        Object found = properties.get("troubles");
        troubles = found == null ? 0 : Integer.parseInt(found.toString());
    }

    @Override
    public void withPluginMetrics(PluginMetrics metrics) {
        metrics.addMetric(metrics.metricName("seen", "Records.", new LinkedHashMap<>()), (Gauge<Integer>) (c, now) -> seen);
        metrics.addMetric(metrics.metricName("text", "No number.", new LinkedHashMap<>()), (Gauge<String>) (c, now) -> "t");
        metrics.addMetric(metrics.metricName("broken", "Throws.", new LinkedHashMap<>()), (Gauge<Integer>) (c, now) -> {
            throw new IllegalStateException("no value");
        });
    }

    @Override
    public void close() {
    }
}
