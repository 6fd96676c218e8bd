package tests;

import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** Makes a record anew for another topic, and not by the method `newRecord` of the one that it gets. */
public final class Anew implements Transformation<SinkRecord> {
    @Override
    public SinkRecord apply(SinkRecord record) {
        return new SinkRecord("other", record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(),
                record.value(), record.kafkaOffset(), record.timestamp(), record.timestampType(), record.headers());
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef();
    }

    @Override
    public void configure(Map<String, ?> properties) {
    }

    @Override
    public void close() {
    }
}
