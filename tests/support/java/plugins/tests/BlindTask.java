package tests;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Keeps the offset of the last committed record, as Debezium's tasks do, and does not look where the record is. */
public final class BlindTask extends SourceTask {
    private Map<String, ?> last;

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public void start(Map<String, String> properties) {
    }

    @Override
    public List<SourceRecord> poll() {
        return null;
    }

    @Override
    public void commitRecord(SourceRecord record, RecordMetadata metadata) {
        Map<String, ?> offset = record.sourceOffset();
        if (offset != null) {
            last = offset;
        }
    }

    @Override
    public void stop() {
        last = null;
    }

    @Override
    public String toString() {
        return "BlindTask " + last;
    }
}
