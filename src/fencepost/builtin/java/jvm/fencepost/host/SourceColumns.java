package fencepost.host;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.source.SourceRecord;

/** Converted records as columns. It is filled again for each batch. */
final class SourceColumns {
    static final long NO_TIMESTAMP = Long.MIN_VALUE;

    private final Column keys = new Column();
    private final Column values = new Column();
    private final Column headerValues = new Column();
    private final Runs<String> headerNames = new Runs<>();
    private final Runs<Headers> headers = new Runs<>();
    private final Runs<String> topics = new Runs<>();
    private final Runs<Map<String, ?>> sources = new Runs<>();
    private int[] partitions = new int[1024];
    private int[] headerCounts = new int[16];
    private long[] timestamps = new long[1024];
    private boolean hasPartitions;
    private boolean hasTimestamps;

    void clear() {
        keys.clear();
        values.clear();
        headerValues.clear();
        headerNames.clear();
        headers.clear();
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
        int place = record.kafkaPartition() == null ? -1 : record.kafkaPartition();
        append(polled, record.topic(), place, timestamp(record.timestamp()), key, value, headers);
    }

    /** Add a record that was dropped, as it was polled; with its contents if they are to be kept. */
    void addDropped(SourceRecord polled, boolean keepsContents) {
        String topic = polled.topic() == null ? "" : polled.topic();
        long timestamp = polled.timestamp() == null ? NO_TIMESTAMP : polled.timestamp();
        RecordHeaders headers = new RecordHeaders();
        if (!keepsContents) {
            append(polled, topic, -1, timestamp, null, null, headers);
            return;
        }
        polled.headers().forEach(each -> headers.add(each.key(), DeadLetter.bytes(each.value())));
        append(polled, topic, -1, timestamp, DeadLetter.bytes(polled.key()), DeadLetter.bytes(polled.value()), headers);
    }

    private void append(
            SourceRecord polled, String topic, int place, long timestamp, byte[] key, byte[] value, Headers its) {
        int row = rows();
        if (row == partitions.length) {
            partitions = Arrays.copyOf(partitions, 2 * row);
            timestamps = Arrays.copyOf(timestamps, 2 * row);
        }
        timestamps[row] = timestamp;
        hasTimestamps |= timestamps[row] != NO_TIMESTAMP;
        partitions[row] = place;
        hasPartitions |= partitions[row] >= 0;
        topics.add(topic);
        sources.add(polled.sourcePartition() == null ? Map.of() : polled.sourcePartition());
        keys.add(key);
        values.add(value);
        addHeaders(its);
    }

    /** Most records of a batch have the headers of the one before: distinct ones cross once. */
    private void addHeaders(Headers its) {
        boolean isNew = headers.add(its.equals(headers.last()) ? headers.last() : copied(its));
        if (!isNew) {
            return;
        }
        int number = headers.distinct().size() - 1;
        if (number == headerCounts.length) {
            headerCounts = Arrays.copyOf(headerCounts, 2 * number);
        }
        headerCounts[number] = 0;
        for (Header each : its) {
            headerNames.add(Thrown.whole(each.key()));
            headerValues.add(each.value());
            headerCounts[number]++;
        }
    }

    /** A converter may use its arrays again. */
    private static Headers copied(Headers its) {
        RecordHeaders found = new RecordHeaders();
        its.forEach(each -> found.add(each.key(), each.value() == null ? null : each.value().clone()));
        return found;
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
            head.put("headers", headers.numbered());
            head.put("header_names", headerNames.described());
            buffers.put("header_counts", Column.bytes(headerCounts, headers.distinct().size()));
            headerValues.buffers("headers", buffers);
        }
        return Answer.of(head, buffers);
    }
}
