package tests;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.TransactionContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Counts from 1: each record is "part:number", its key is the part. If it may, it ends its transactions itself, each
 * after three batches. When "act.at" is the next number, the call "act.in" may throw, or hang as "act" says (`Hang`);
 * with "bad" the number's value is that.
 */
public final class NumberSourceTask extends SourceTask {
    private static final Logger LOG = LoggerFactory.getLogger(NumberSourceTask.class);

    private Map<String, Object> settings;
    private String part;
    private volatile long next;

    @Override
    public String version() {
        return "3.14";
    }

    @Override
    public void start(Map<String, String> properties) {
        settings = NumberSourceConnector.SETTINGS.parse(properties);
        part = properties.get("part");
        Map<String, Object> offset = context.offsetStorageReader().offset(Map.of("part", part));
        next = offset == null ? 1 : (Long) offset.get("number") + 1;
        PluginMetrics metrics = context.pluginMetrics();
        MetricName name = metrics.metricName("next-number", "The next number.", new LinkedHashMap<>(Map.of("part", part)));
        metrics.addMetric(name, (Gauge<Long>) (config, now) -> next);
        try {
            act("start");
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    @Override
    public List<SourceRecord> poll() throws InterruptedException {
        LOG.debug("polls number {}", next);
        Thread.sleep((Long) settings.get("pause.ms"));
        List<SourceRecord> found = new ArrayList<>();
        while (found.size() < (Integer) settings.get("batch") && next <= (Long) settings.get("count")) {
            act("poll");
            found.add(new SourceRecord(Map.of("part", part), Map.of("number", next), (String) settings.get("topic"),
                Schema.STRING_SCHEMA, part, Schema.STRING_SCHEMA,
                next == (Long) settings.get("act.at") && settings.get("act").equals("bad") ? "bad" : part + ":" + next));
            next++;
        }
        endTransaction(found.isEmpty());
        if (found.isEmpty()) {
            Thread.sleep(50);
        }
        return found.isEmpty() ? null : found;
    }

    private void endTransaction(boolean isOver) {
        TransactionContext transaction = context.transactionContext();
        if (transaction != null && (isOver || (next - 1) / (Integer) settings.get("batch") % 3 == 0)) {
            transaction.commitTransaction();
        }
    }

    /** Do what "act" says, if it is due in this call; with "act.once" only where that file is not there yet. */
    private void act(String call) throws InterruptedException {
        String what = (String) settings.get("act");
        long at = (Long) settings.get("act.at");
        boolean isDue = next == at || call.equals("commit") && at > 0 && next > at;  // not every number is last at one
        if (what.equals("bad") || !call.equals(settings.get("act.in")) || !isDue || !isFirst()) {
            return;
        }
        if (what.equals("throw")) {
            throw new IllegalStateException("it was told to throw", new RuntimeException("the cause"));
        }
        Hang.in(what, () -> { });
    }

    private boolean isFirst() {
        String once = (String) settings.get("act.once");
        try {
            return once.isEmpty() || new File(once).createNewFile();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void commit() throws InterruptedException {
        act("commit");
    }

    @Override
    public void stop() {
    }
}
