package tests;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.TransactionContext;

/**
 * Counts from 1: each record is "part:number", its key is the part. If it may, it ends its transactions itself, each
 * after three batches. At a number it may do what "act" says: exit, hang, throw, or give the value "bad".
 */
public final class NumberSourceTask extends SourceTask {
    private Map<String, Object> settings;
    private String part;
    private long next;

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
    }

    @Override
    public List<SourceRecord> poll() throws InterruptedException {
        Thread.sleep((Long) settings.get("pause.ms"));
        List<SourceRecord> found = new ArrayList<>();
        while (found.size() < (Integer) settings.get("batch") && next <= (Long) settings.get("count")) {
            if (next == (Long) settings.get("act.at")) {
                act((String) settings.get("act"));
            }
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

    private static void act(String what) {
        switch (what) {
            case "bad" -> { }
            case "exit" -> System.exit(3);
            case "hang" -> hang();
            case "throw" -> throw new IllegalStateException("it was told to throw", new RuntimeException("the cause"));
            default -> throw new IllegalArgumentException(what);
        }
    }

    private static void hang() {
        while (true) {
            Thread.onSpinWait();
            try {
                Thread.sleep(10);
            } catch (InterruptedException ignored) {
                // neither does it end then
            }
        }
    }

    @Override
    public void stop() {
    }
}
