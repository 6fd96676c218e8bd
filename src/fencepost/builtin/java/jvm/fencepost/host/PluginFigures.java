package fencepost.host;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;

/** The metrics that the plug-ins of one connector or task register (KIP-877). Thread-safe. */
final class PluginFigures {
    private static final String GROUP = "plugins";

    private final Metrics metrics = new Metrics();

    /** Return where a plug-in registers its metrics; they get these tags. */
    PluginMetrics of(Map<String, String> tags) {
        return new PluginMetricsImpl(metrics, tags);
    }

    /** Return name, tags as text, and value of each metric that is a number now. */
    List<Object> rows() {
        List<Object> found = new ArrayList<>();
        metrics.metrics().forEach((name, metric) -> {
            Object value = name.group().equals(GROUP) ? value(metric) : null;
            if (value instanceof Number number && Double.isFinite(number.doubleValue())) {
                found.add(List.of(Thrown.whole(name.name()), tags(name), number.doubleValue()));
            }
        });
        return found;
    }

    private static Object value(KafkaMetric metric) {
        try {
            return metric.metricValue();
        } catch (Throwable error) {  // a plug-in computes it
            return null;
        }
    }

    private static String tags(MetricName name) {
        StringBuilder text = new StringBuilder();
        new TreeMap<>(name.tags()).forEach((key, value) -> {
            text.append(text.isEmpty() ? "" : ",").append(key).append('=').append(value);
        });
        return Thrown.whole(text.toString());
    }
}
