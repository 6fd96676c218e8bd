package tests;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/**
 * Keeps lines until "flush", for which it asks, unless it is "patient". Values that start with "!" are acts. With "apart"
 * each task has a file of its own. Each put of records takes "pause.ms".
 */
public final class LinesSinkTask extends SinkTask {
    private final StringBuilder lines = new StringBuilder();
    private Path file;
    private boolean isPatient;
    private long pauseMs;
    private boolean hasRefused;

    @Override
    public String version() {
        return "2.71";
    }

    @Override
    public void start(Map<String, String> properties) {
        file = Path.of(properties.get("file") + (properties.containsKey("apart") ? "-" + UUID.randomUUID() : ""));
        isPatient = properties.containsKey("patient");
        pauseMs = Long.parseLong(properties.getOrDefault("pause.ms", "0"));
    }

    @Override
    public void put(Collection<SinkRecord> records) {
        if (!records.isEmpty()) {
            pause();
        }
        for (SinkRecord record : records) {
            String value = String.valueOf(record.value());
            if (value.equals("!retriable") && !hasRefused) {
                hasRefused = true;
                throw new RetriableException("the store is away");
            }
            if (value.equals("!report")) {
                context.errantRecordReporter().report(record, new DataException("unwanted"));
            } else if (value.equals("!report-and-die")) {
                reportAndDie(record);
                continue;
            } else if (value.equals("!fail")) {
                throw new ConnectException("it was told to fail");
            } else if (value.equals("!hang")) {
                Diary.append(Path.of(file + ".hangs"), "");
                Hang.loop();
            }
            lines.append(record.originalTopic()).append('-').append(record.originalKafkaPartition()).append('@')
                    .append(record.originalKafkaOffset()).append(' ').append(value).append('\n');
        }
        if (lines.length() > 0 && !isPatient) {
            context.requestCommit();
        }
    }

    /** Report a record, and note that in an own store, which counts it as done after a crash. */
    private void reportAndDie(SinkRecord record) {
        Path store = Path.of(file + ".reported");
        if (Files.exists(store)) {
            return;
        }
        try {
            context.errantRecordReporter().report(record, new DataException("unwanted")).get();
        } catch (InterruptedException | ExecutionException error) {
            throw new ConnectException(error);
        }
        Diary.append(store, "done");
        Runtime.getRuntime().halt(3);
    }

    private void pause() {
        try {
            Thread.sleep(pauseMs);
        } catch (InterruptedException error) {
            throw new ConnectException(error);
        }
    }

    @Override
    public void flush(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Diary.append(file, lines);
        lines.setLength(0);
    }

    @Override
    public void stop() {
    }
}
