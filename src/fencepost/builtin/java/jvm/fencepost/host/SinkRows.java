package fencepost.host;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.sink.SinkRecord;

/** The rows of a request to put, which are converted and transformed in order, each once and no sooner than it is put. */
final class SinkRows {
    private final Conversion<SinkRecord> conversion;
    private final Membership membership;
    private final SinkColumns columns;
    private final SinkColumns read;
    private final List<ConnectRecord<?>> handed;
    private final Iterator<?> runs;
    private final int count;
    private final boolean keepsRead;
    private TopicPartition place;
    private String topic;
    private int runEnd;
    private int row;
    private int filtered;

    /**
     * Python has converted the records already if there is a buffer "records". "keepsRead": they may be reported. Where
     * they are not what was read, as Python has converted them or taken headers off, that comes with them.
     */
    SinkRows(Request request, Conversion<SinkRecord> conversion, Membership membership, Records form, boolean keepsRead) {
        this.keepsRead = keepsRead;
        this.conversion = conversion;
        this.membership = membership;
        boolean isHanded = request.buffer("records") != null;
        handed = isHanded ? form.read(request, false) : null;
        columns = isHanded ? null : new SinkColumns(request);
        read = keepsRead ? SinkColumns.asRead(request) : null;
        count = isHanded ? handed.size() : columns.rows;
        runs = request.list("places").iterator();
    }

    int left() {
        return count - row;
    }

    /** Return how many records transforms have removed so far. */
    int filtered() {
        return filtered;
    }

    /** Return what has become of so many more rows, without those that were filtered or dropped. */
    List<SinkRecord> next(int rows) throws InterruptedException {
        List<SinkRecord> found = new ArrayList<>(rows);
        for (int end = row + rows; row < end; row++) {
            conversion.tolerance.begin();
            SinkRecord record = handed == null ? converted() : handedOver();
            SinkRecord changed = record == null ? null : transformed(record);
            if (changed != null) {
                found.add(changed);
            }
        }
        give();
        return found;
    }

    private void give() {
        if (columns != null && place != null) {
            membership.give(place, columns.offset(row - 1) + 1);
        }
    }

    private SinkRecord transformed(SinkRecord record) throws InterruptedException {
        SinkRecord changed = conversion.chain.apply(record, conversion.tolerance, row);
        filtered += changed == null && !conversion.tolerance.hasFailed() ? 1 : 0;
        boolean isNew = changed != null && record instanceof ReadRecord && !(changed instanceof ReadRecord);
        return isNew ? new ReadRecord(changed, ((ReadRecord) record).asRead()) : changed;
    }

    private SinkRecord handedOver() {
        SinkRecord record = (SinkRecord) handed.get(row);
        TopicPartition from = new TopicPartition(record.originalTopic(), record.originalKafkaPartition());
        membership.give(from, record.originalKafkaOffset() + 1);
        return read == null ? record : new ReadRecord(copy(record), asRead(from));
    }

    /** Return a record with headers of its own, which a transform may change in place. */
    private static SinkRecord copy(SinkRecord record) {
        return record.newRecord(record.topic(), record.kafkaPartition(), record.keySchema(), record.key(), record.valueSchema(),
                record.value(), record.timestamp());
    }

    private SinkRecord converted() throws InterruptedException {
        if (row >= runEnd) {
            nextRun();
        }
        Tolerance tolerance = conversion.tolerance;
        RecordHeaders headers = columns.headers(row);
        byte[] rawKey = columns.key(row);
        byte[] rawValue = columns.value(row);
        SinkRecord asRead = asRead(rawKey, rawValue, headers);
        SchemaAndValue key = tolerance.run("KEY_CONVERTER", conversion.key, row,
                () -> conversion.key.toConnectData(topic, headers, rawKey));
        SchemaAndValue value = tolerance.hasFailed() ? null : tolerance.run("VALUE_CONVERTER", conversion.value, row,
                () -> conversion.value.toConnectData(topic, headers, rawValue));
        ConnectHeaders found = tolerance.hasFailed() ? null : tolerance.run("HEADER_CONVERTER", conversion.header, row,
                () -> Conversion.connect(topic, headers, conversion.header));
        if (tolerance.hasFailed()) {
            return null;
        }
        SinkRecord record = new SinkRecord(topic, place.partition(), key.schema(), key.value(), value.schema(), value.value(),
                columns.offset(row), columns.timestamp(row), columns.timestampType(row), found, place.topic(),
                place.partition(), columns.offset(row));
        return asRead == null ? record : new ReadRecord(record, asRead);
    }

    private SinkRecord asRead(byte[] key, byte[] value, RecordHeaders headers) {
        if (!keepsRead) {
            return null;
        }
        return read == null ? raw(place, columns, key, value, headers) : asRead(place);
    }

    private SinkRecord asRead(TopicPartition from) {
        return raw(from, read, read.key(row), read.value(row), read.headers(row));
    }

    private SinkRecord raw(TopicPartition from, SinkColumns given, byte[] key, byte[] value, RecordHeaders headers) {
        return new SinkRecord(from.topic(), from.partition(), Records.RAW, key, Records.RAW, value, given.offset(row),
                given.timestamp(row), given.timestampType(row), Records.connect(headers), from.topic(), from.partition(),
                given.offset(row));
    }

    /**
     * The runs of "places" are [topic, partition, topic of the records, how many] each. The topics differ if a record was
     * resent: it is one of the topic from which it once came.
     */
    private void nextRun() {
        give();
        List<?> run = (List<?>) runs.next();
        place = Request.partition(run);
        topic = (String) run.get(2);
        runEnd = row + ((Number) run.get(3)).intValue();
    }
}
