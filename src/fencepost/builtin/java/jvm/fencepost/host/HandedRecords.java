package fencepost.host;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/** Polled records that Python converts: they cross with their values. It is filled again for each answer. */
final class HandedRecords {
    private static final int MOST_DEPTH = 100;
    private static final int MOST_PARTS = 10_000;  // are measured of a record

    private final Records form = new Records();
    private final List<SourceRecord> records = new ArrayList<>();
    private final List<SourceRecord> polled = new ArrayList<>();  // what became of it was dropped if it is null here
    private long size;
    private int parts;

    /** Add a record, and as what it was polled: null if that is what it is, as it was dropped. */
    void add(SourceRecord record, SourceRecord asPolled) {
        records.add(record);
        polled.add(asPolled);
        size += size(record);
    }

    /** Return about how many bytes the records take. */
    long size() {
        return size;
    }

    /** Return the buffers of all records, and forget these. One that cannot be written is refused, and sent as dropped. */
    LinkedHashMap<String, ByteBuffer> taken(Refusal refusal) throws InterruptedException {
        try {
            return written(refusal);
        } finally {
            records.clear();
            polled.clear();
            size = 0;
        }
    }

    private LinkedHashMap<String, ByteBuffer> written(Refusal refusal) throws InterruptedException {
        try {
            return form.write(records);
        } catch (RuntimeException all) {  // one by one, to find those
            for (int row = 0; row < records.size(); row++) {
                RuntimeException error = fault(records.get(row));
                if (error != null && polled.get(row) != null) {
                    refusal.refuse(row, polled.get(row), error);
                    records.set(row, polled.get(row));
                    error = fault(polled.get(row));
                }
                if (error != null) {
                    records.set(row, withoutContents(records.get(row)));
                }
            }
            return form.write(records);
        }
    }

    private RuntimeException fault(SourceRecord record) {
        try {
            form.write(List.of(record));
            return null;
        } catch (RuntimeException error) {
            return error;
        }
    }

    private static SourceRecord withoutContents(SourceRecord record) {
        return record.newRecord(record.topic(), null, null, null, null, null, null, List.of());
    }

    private long size(SourceRecord record) {
        parts = MOST_PARTS;
        return size(record.key(), 0) + size(record.value(), 0);
    }

    private long size(Object value, int depth) {
        if (depth > MOST_DEPTH || --parts < 0) {  // a value may contain itself
            return 0;
        }
        long found = 8;
        if (value instanceof CharSequence text) {
            found += text.length();
        } else if (value instanceof byte[] bytes) {
            found += bytes.length;
        } else if (value instanceof ByteBuffer buffer) {
            found += buffer.remaining();
        } else if (value instanceof Struct struct) {
            for (Field field : struct.schema().fields()) {
                found += size(struct.getWithoutDefault(field.name()), depth + 1);
            }
        } else if (value instanceof Collection<?> many) {
            for (Object each : many) {
                found += size(each, depth + 1);
            }
        } else if (value instanceof Map<?, ?> map) {
            found += size(map.keySet(), depth + 1) + size(map.values(), depth + 1);
        }
        return found;
    }

    /** What happens with a record that has a value which cannot be written. */
    interface Refusal {
        void refuse(int row, SourceRecord polled, RuntimeException error) throws InterruptedException;
    }
}
