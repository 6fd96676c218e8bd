package tests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collection;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** Keeps lines until "flush", for which it asks. Values that start with "!" are acts. */
public final class LinesSinkTask extends SinkTask {
    private final StringBuilder lines = new StringBuilder();
    private Path file;
    private boolean hasRefused;

    @Override
    public String version() {
        return "2.71";
    }

    @Override
    public void start(Map<String, String> properties) {
        file = Path.of(properties.get("file"));
    }

    @Override
    public void put(Collection<SinkRecord> records) {
        for (SinkRecord record : records) {
            String value = String.valueOf(record.value());
            if (value.equals("!retriable") && !hasRefused) {
                hasRefused = true;
                throw new RetriableException("the store is away");
            }
            if (value.equals("!report")) {
                context.errantRecordReporter().report(record, new DataException("unwanted"));
            } else if (value.equals("!fail")) {
                throw new ConnectException("it was told to fail");
            } else if (value.equals("!hang")) {
                hang();
            }
            lines.append(record.originalTopic()).append('-').append(record.originalKafkaPartition()).append('@')
                    .append(record.originalKafkaOffset()).append(' ').append(value).append('\n');
        }
        if (lines.length() > 0) {
            context.requestCommit();
        }
    }

    private void hang() {
        write(Path.of(file + ".hangs"), "");
        while (true) {
            try {
                Thread.sleep(1_000);
            } catch (InterruptedException ignored) {
                // as a plug-in that catches everything
            }
        }
    }

    @Override
    public void flush(Map<TopicPartition, OffsetAndMetadata> offsets) {
        write(file, lines);
        lines.setLength(0);
    }

    private static void write(Path path, CharSequence text) {
        try {
            Files.writeString(path, text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new ConnectException(error);
        }
    }

    @Override
    public void stop() {
    }
}
