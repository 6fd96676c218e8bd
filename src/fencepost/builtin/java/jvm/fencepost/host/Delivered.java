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
    private static final int UNKNOWN = -1;

    private final SourceTask task;
    private final Map<Long, List<Waiting>> waiting = new HashMap<>();

    Delivered(SourceTask task) {
        this.task = task;
    }

    /** Add a record of a batch, and the topic it goes to; row -1: it is not in it, as it was filtered or dropped. */
    void add(long batch, SourceRecord record, int row, String topic) {
        waiting.computeIfAbsent(batch, ignored -> new ArrayList<>()).add(new Waiting(record, row, topic));
    }

    /**
     * Tell the task of the records of a batch: [topic, partition, offset, timestamp] of each row, null if it was not
     * written. Without a list all were written, nobody knows where.
     */
    void tell(long batch, List<?> metadata) {
        List<Waiting> records = waiting.remove(batch);
        for (Waiting each : records == null ? List.<Waiting>of() : records) {
            try {
                task.commitRecord(each.record, each.row < 0 ? null : metadata(each, metadata));
            } catch (Throwable error) {  // as in Kafka Connect: what is committed stays so
                Logs.error(task.getClass(), "commitRecord() failed", error);
            }
        }
    }

    private static RecordMetadata metadata(Waiting waiting, List<?> metadata) {
        if (metadata == null) {
            return new RecordMetadata(new TopicPartition(waiting.topic, UNKNOWN), UNKNOWN, 0, UNKNOWN, UNKNOWN, UNKNOWN);
        }
        List<?> found = waiting.row < metadata.size() ? (List<?>) metadata.get(waiting.row) : null;
        if (found == null) {
            return null;
        }
        long timestamp = found.get(3) == null ? -1 : ((Number) found.get(3)).longValue();
        return new RecordMetadata(Request.partition(found), ((Number) found.get(2)).longValue(), 0, timestamp, -1, -1);
    }

    private record Waiting(SourceRecord record, int row, String topic) {
    }
}
