package fencepost.host;

import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;

/**
 * A record of which it is known what was read: its dead letter has that. What transforms and tasks make of it knows it as
 * well. So what was read is in memory for as long as the task has the record, and no longer.
 */
final class ReadRecord extends SinkRecord {
    private final SinkRecord asRead;

    ReadRecord(SinkRecord record, SinkRecord asRead) {
        super(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(), record.value(),
                record.kafkaOffset(), record.timestamp(), record.timestampType(), record.headers(), record.originalTopic(),
                record.originalKafkaPartition(), record.originalKafkaOffset());
        this.asRead = asRead;
    }

    /** Return what was read: key, value and headers are bytes. */
    SinkRecord asRead() {
        return asRead;
    }

    @Override
    public SinkRecord newRecord(String topic, Integer kafkaPartition, Schema keySchema, Object key, Schema valueSchema,
            Object value, Long timestamp, Iterable<Header> headers) {
        return new ReadRecord(super.newRecord(topic, kafkaPartition, keySchema, key, valueSchema, value, timestamp, headers),
                asRead);
    }
}
