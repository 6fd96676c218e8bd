package fencepost.host;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import org.apache.kafka.connect.source.SourceRecord;

/** Polled records that Python converts: they cross with their values. It is filled again for each answer. */
final class HandedRecords {
    private final Records form = new Records();
    private final List<SourceRecord> records = new ArrayList<>();

    /** Add a record. Throws if it cannot be written. */
    Void add(SourceRecord record) {
        form.write(List.of(record));
        records.add(record);
        return null;
    }

    /** Add a record that was dropped, as it was polled; without contents if these cannot be written. */
    void addDropped(SourceRecord polled) {
        try {
            add(polled);
        } catch (RuntimeException error) {
            records.add(polled.newRecord(polled.topic(), null, null, null, null, null, polled.timestamp(), List.of()));
        }
    }

    /** Return the answer with the records, whose columns have no keys and values. */
    Answer answer(Answer columns) {
        LinkedHashMap<String, ByteBuffer> buffers = form.write(records);
        records.clear();
        return new Answer(columns.head(), buffers);
    }
}
