package fencepost.host;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.connect.sink.SinkRecord;

/** The records that a sink task has reported and Python does not know of yet. Thread-safe. */
final class Reports {
    private final Conversion<SinkRecord> conversion;
    private final boolean isHanded;
    private final Records form = new Records();
    private final List<SinkRecord> records = new ArrayList<>();
    private final List<List<Object>> facts = new ArrayList<>();
    private final Acknowledgements acknowledgements;
    private long count;
    private boolean isOver;

    /** "isHanded": Python converts records, so they cross with their values. Created in the thread of the session. */
    Reports(Conversion<SinkRecord> conversion, boolean isHanded) {
        this.conversion = conversion;
        this.isHanded = isHanded;
        acknowledgements = new Acknowledgements((Session) Thread.currentThread(), this);
    }

    /**
     * Add a record; what is returned is done once its dead letter is written. Throws if one that the task has made itself
     * cannot be converted, or cannot be sent.
     */
    synchronized Future<Void> add(SinkRecord record, Throwable error) {
        SinkRecord read = record instanceof ReadRecord known ? known.asRead() : isHanded ? record : converted(record);
        form.write(List.of(read));
        records.add(read);
        facts.add(Arrays.asList(read.originalTopic(), read.originalKafkaPartition(), read.originalKafkaOffset(),
                error.getClass().getName(), Thrown.message(error), conversion.tolerance.trace(error),
                record instanceof ReadRecord));
        if (isOver) {
            warnOfTheRest();
        }
        return acknowledgements.of(++count);
    }

    /** The task has stopped: dead letters are written no more, so the log says which ones there are not. */
    synchronized void end() {
        isOver = true;
        warnOfTheRest();
    }

    private void warnOfTheRest() {
        for (List<Object> each : facts) {
            Logs.warn(Reports.class, "the task has reported " + each.get(0) + "-" + each.get(1) + "@" + each.get(2)
                    + " in stop() or later, so there is no dead letter of it: " + each.get(3) + ": " + each.get(4));
        }
        records.clear();
        facts.clear();
    }

    private SinkRecord converted(SinkRecord record) {
        byte[] key = conversion.key.fromConnectData(record.topic(), record.keySchema(), record.key());
        byte[] value = conversion.value.fromConnectData(record.topic(), record.valueSchema(), record.value());
        return new SinkRecord(record.topic(), record.kafkaPartition(), Records.RAW, key, Records.RAW, value,
                record.kafkaOffset(), record.timestamp(), record.timestampType(),
                Records.connect(Conversion.raw(record, conversion.header)), record.originalTopic(),
                record.originalKafkaPartition(), record.originalKafkaOffset());
    }

    /** Return how many records there have ever been. */
    synchronized long count() {
        return count;
    }

    synchronized boolean isEmpty() {
        return records.isEmpty();
    }

    /** Return the question whether all records are safe, with those that Python does not know of yet. */
    Answer question() {
        Map<String, Object> head = new HashMap<>();
        return new Answer(head, take(head));
    }

    /** Take what was reported since the last time: put the facts into "head", and return the buffers with the records. */
    synchronized Map<String, ByteBuffer> take(Map<String, Object> head) {
        head.put("errant", List.copyOf(facts));
        LinkedHashMap<String, ByteBuffer> buffers = records.isEmpty() ? new LinkedHashMap<>() : form.write(records);
        records.clear();
        facts.clear();
        return buffers;
    }
}
