package fencepost.host;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.errors.IllegalWorkerStateException;
import org.apache.kafka.connect.runtime.WorkerSinkTaskContext;
import org.apache.kafka.connect.sink.ErrantRecordReporter;

/** What a sink task is given: Kafka Connect's own class, into which Iceberg's sink looks. It keeps what is asked of it. */
final class SinkContext extends WorkerSinkTaskContext {
    private final Map<String, String> config;
    private final Membership membership;
    private final Reports reports;
    private final PluginMetrics metrics;
    private final List<TopicPartition> paused = new ArrayList<>();
    private final List<TopicPartition> resumed = new ArrayList<>();

    /** Without "reports" there is no reporter. */
    SinkContext(Map<String, String> config, Membership membership, Reports reports, PluginMetrics metrics) {
        super(membership.consumer(), null, null);
        this.config = config;
        this.membership = membership;
        membership.setContext(this);
        this.reports = reports;
        this.metrics = metrics;
    }

    @Override
    public Map<String, String> configs() {
        return config;
    }

    @Override
    public void pause(TopicPartition... partitions) {
        checkOwned(partitions, "pause");
        paused.addAll(Arrays.asList(partitions));
        resumed.removeAll(Arrays.asList(partitions));
    }

    @Override
    public void resume(TopicPartition... partitions) {
        checkOwned(partitions, "resume");
        resumed.addAll(Arrays.asList(partitions));
        paused.removeAll(Arrays.asList(partitions));
    }

    private void checkOwned(TopicPartition[] partitions, String what) {
        if (!membership.partitions().containsAll(Arrays.asList(partitions))) {
            throw new IllegalWorkerStateException(
                    "SinkTasks may not " + what + " partitions that are not currently assigned to them.");
        }
    }

    @Override
    public ErrantRecordReporter errantRecordReporter() {
        return reports == null ? null : reports::add;
    }

    @Override
    public PluginMetrics pluginMetrics() {
        return metrics;
    }

    @Override
    public String toString() {
        return "SinkContext";
    }

    boolean hasRewinds() {
        return !offsets().isEmpty();
    }

    /** Say whether the task has asked for something since the last time. */
    synchronized boolean hasEffects() {
        return !offsets().isEmpty() || timeout() >= 0 || isCommitRequested()
                || !paused.isEmpty() || !resumed.isEmpty() || reports != null && !reports.isEmpty();
    }

    /** Take what the task has asked for since the last time. */
    synchronized Map<String, Object> effects() {
        Map<String, Object> found = new HashMap<>();
        found.put("rewinds", offsets().entrySet().stream().filter(SinkContext::hasOffset)
                .map(each -> List.of(each.getKey().topic(), each.getKey().partition(), each.getValue())).toList());
        found.put("timeout_ms", timeout() < 0 ? null : timeout());
        found.put("paused", named(paused));
        found.put("resumed", named(resumed));
        found.put("requests_commit", isCommitRequested());
        clearOffsets();
        clearCommitRequest();
        timeout(-1);
        paused.clear();
        resumed.clear();
        return found;
    }

    private static boolean hasOffset(Map.Entry<TopicPartition, Long> rewind) {
        if (rewind.getValue() == null) {
            Logs.warn(SinkContext.class, rewind.getKey() + " cannot go to an offset that is null, and stays where it is");
        }
        return rewind.getValue() != null;
    }

    /** Return the topic and the number of each partition, as Python has them. */
    static List<List<Object>> named(Collection<TopicPartition> partitions) {
        return partitions.stream().map(each -> List.<Object>of(each.topic(), each.partition())).toList();
    }
}
