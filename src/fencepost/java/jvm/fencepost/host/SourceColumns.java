package fencepost.host;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.connect.source.SourceRecord;

/** Converted records as columns. It is filled again for each batch. */
final class SourceColumns {
    static final long NO_TIMESTAMP = Long.MIN_VALUE;

    private final Column keys = new Column();
    private final Column values = new Column();
    private final Column headerValues = new Column();
    private final Runs<String> headerNames = new Runs<>();
    private final Runs<String> topics = new Runs<>();
    private final Runs<Map<String, ?>> sources = new Runs<>();
    private int[] partitions = new int[1024];
    private int[] headerCounts = new int[1024];
    private long[] timestamps = new long[1024];
    private boolean hasPartitions;
    private boolean hasTimestamps;

    void clear() {
        keys.clear();
        values.clear();
        headerValues.clear();
        headerNames.clear();
        topics.clear();
        sources.clear();
        hasPartitions = false;
        hasTimestamps = false;
    }

    int rows() {
        return values.rows();
    }

    int size() {
        return keys.size() + values.size() + headerValues.size();
    }

    /** Add a record; its source partition is that which "polled" has. */
    void add(SourceRecord polled, SourceRecord record, Headers headers, byte[] key, byte[] value) {
        check(record);
        int row = rows();
        if (row == partitions.length) {
            partitions = Arrays.copyOf(partitions, 2 * row);
            headerCounts = Arrays.copyOf(headerCounts, 2 * row);
            timestamps = Arrays.copyOf(timestamps, 2 * row);
        }
        timestamps[row] = timestamp(record.timestamp());
        hasTimestamps |= timestamps[row] != NO_TIMESTAMP;
        partitions[row] = record.kafkaPartition() == null ? -1 : record.kafkaPartition();
        hasPartitions |= partitions[row] >= 0;
        topics.add(record.topic());
        sources.add(polled.sourcePartition() == null ? Map.of() : polled.sourcePartition());
        keys.add(key);
        values.add(value);
        headerCounts[row] = 0;
        for (Header each : headers) {
            headerNames.add(each.key());
            headerValues.add(each.value());
            headerCounts[row]++;
        }
    }

    /** Refuse what Kafka's producer refuses. */
    private static void check(SourceRecord record) {
        if (record.topic() == null) {
            throw new IllegalArgumentException("Topic cannot be null.");
        }
        if (record.kafkaPartition() != null && record.kafkaPartition() < 0) {
            throw new IllegalArgumentException("Invalid partition: " + record.kafkaPartition());
        }
    }

    String lastTopic() {
        return topics.last();
    }

    private static long timestamp(Long given) {
        if (given == null || given == -1) {
            return NO_TIMESTAMP;
        }
        if (given < 0) {
            throw new InvalidRecordException("Invalid record timestamp " + given);
        }
        return given;
    }

    Answer answer(Map<String, Object> facts) {
        Map<String, Object> head = new HashMap<>(facts);
        LinkedHashMap<String, ByteBuffer> buffers = new LinkedHashMap<>();
        int rows = rows();
        head.put("rows", rows);
        head.put("topics", topics.described());
        head.put("sources", sources.described());
        keys.buffers("keys", buffers);
        values.buffers("values", buffers);
        if (hasTimestamps) {
            buffers.put("timestamps", Column.bytes(timestamps, rows));
        }
        if (hasPartitions) {
            buffers.put("partitions", Column.bytes(partitions, rows));
        }
        if (headerValues.rows() > 0) {
            head.put("header_names", headerNames.described());
            buffers.put("header_counts", Column.bytes(headerCounts, rows));
            headerValues.buffers("headers", buffers);
        }
        return Answer.of(head, buffers);
    }
}
