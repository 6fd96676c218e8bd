package tests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.source.TransactionContext;

/** Counts, and asks in each call whether it may go on. Always the same of its own transactions are given up. */
public final class GatedSourceTask extends SourceTask {
    private static final int MOST_POLLED = 25;  // so that transactions end inside batches, and reach over them

    private Gate gate;
    private Path file;
    private String topic;
    private int line;
    private int transaction;
    private long next;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> properties) {
        line = Integer.parseInt(properties.get("line"));
        file = Path.of(properties.get("file") + "." + line);
        topic = properties.get("topic");
        transaction = Integer.parseInt(properties.get("transaction"));
        Map<String, Object> offset = context.offsetStorageReader().offset(Map.of("task", line));
        next = offset == null ? 0 : (Long) offset.get("next");
        gate = Gate.open(properties);
    }

    @Override
    public List<SourceRecord> poll() throws InterruptedException {
        long stop = Math.min(available(), next + MOST_POLLED);
        if (stop <= next) {
            Thread.sleep(20);
            return null;
        }
        gate.ask("poll before");
        List<SourceRecord> found = new ArrayList<>();
        long middle = (next + stop) / 2;
        for (; next < stop; next++) {
            if (next == middle) {
                gate.ask("poll during");
            }
            found.add(record(next));
        }
        gate.ask("poll after");
        return found;
    }

    private long available() {
        try {
            return Files.exists(file) ? Files.size(file) : 0;
        } catch (IOException error) {
            return 0;
        }
    }

    private SourceRecord record(long number) {
        String key = line + "-" + number % 7;
        String json = "{\"task\":%d,\"number\":%d,\"topic\":\"%s\",\"key\":\"%s\"}";
        String value = String.format(json, line, number, topic, key);
        SourceRecord made = new SourceRecord(Map.of("task", line), Map.of("next", number + 1), topic,
                Schema.STRING_SCHEMA, key, Schema.STRING_SCHEMA, value);
        TransactionContext own = context.transactionContext();
        if (own != null && (number + 1) % transaction == 0) {
            if (number / transaction % 9 == 4) {
                own.abortTransaction(made);
            } else {
                own.commitTransaction(made);
            }
        }
        return made;
    }

    @Override
    public void commitRecord(SourceRecord record, RecordMetadata metadata) {
        gate.ask("commitRecord during");
    }

    @Override
    public void commit() {
        gate.ask("commit during");
    }

    @Override
    public void stop() {
        if (gate != null) {
            gate.close();
        }
    }
}
