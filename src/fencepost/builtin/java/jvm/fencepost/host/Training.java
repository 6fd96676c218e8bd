package fencepost.host;

import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** A source task of no use but to load the classes that tasks need, for their archive. */
public final class Training extends SourceTask {
    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> config) {
    }

    @Override
    public List<SourceRecord> poll() {
        return List.of(new SourceRecord(Map.of("at", 1), Map.of("at", 1L), "t", Schema.STRING_SCHEMA, "value"));
    }

    @Override
    public void stop() {
    }
}
