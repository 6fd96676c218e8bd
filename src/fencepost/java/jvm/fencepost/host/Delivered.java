package fencepost.host;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Polled records of which a task wants to be told when they are committed. */
final class Delivered {
    private final SourceTask task;
    private final Map<Long, List<Waiting>> waiting = new HashMap<>();

    Delivered(SourceTask task) {
        this.task = task;
    }

    /** Add a record of a batch; row -1: it is not in it, because it was filtered or dropped. */
    void add(long batch, SourceRecord record, int row) {
        waiting.computeIfAbsent(batch, ignored -> new ArrayList<>()).add(new Waiting(record, row));
    }

    /** Tell the task of the records of a batch: [topic, partition, offset, timestamp] of each row, null if not written. */
    void tell(long batch, List<?> metadata) {
        List<Waiting> records = waiting.remove(batch);
        for (Waiting each : records == null ? List.<Waiting>of() : records) {
            List<?> found = each.row < 0 || each.row >= metadata.size() ? null : (List<?>) metadata.get(each.row);
            try {
                task.commitRecord(each.record, found == null ? null : metadata(found));
            } catch (Exception error) {  // as in Kafka Connect: what is committed stays so
                Log.error(task.getClass(), "commitRecord() failed", error);
            }
        }
    }

    private static RecordMetadata metadata(List<?> found) {
        TopicPartition partition = new TopicPartition((String) found.get(0), ((Number) found.get(1)).intValue());
        long timestamp = found.get(3) == null ? -1 : ((Number) found.get(3)).longValue();
        return new RecordMetadata(partition, ((Number) found.get(2)).longValue(), 0, timestamp, -1, -1);
    }

    private record Waiting(SourceRecord record, int row) {
    }
}
