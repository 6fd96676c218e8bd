package fencepost.host;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.runtime.WorkerTransactionContext;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.storage.OffsetUtils;

/** A source task. */
final class SourceService extends TaskService<SourceTask, SourceRecord> {
    private static final int MOST_BYTES = 4 << 20;
    private static final Headers NO_HEADERS = new RecordHeaders();

    private final Offsets offsets;
    private final WorkerTransactionContext transaction;
    private final SourceColumns columns = new SourceColumns();
    private final Callbacks callbacks;
    private final Delivered delivered;
    private final HandedRecords handed;
    private final boolean keepsOffsets;  // for dead letters of what Python refuses
    private List<SourceRecord> polled = List.of();
    private int next;
    private long number;
    private boolean isBatchMarkOpen;

    SourceService(Request request, Loaders loaders) throws Exception {
        super(request, loaders, SourceTask.class);
        offsets = new Offsets(request.offsets("offsets"));
        transaction = request.flag("defines_transactions") ? new WorkerTransactionContext() : null;
        callbacks = Callbacks.of(task);
        delivered = callbacks.records() ? new Delivered(task) : null;
        handed = request.flag("passes_records") ? new HandedRecords() : null;
        keepsOffsets = handed != null && conversion.tolerance.keepsRecords;
        start();
    }

    @Override
    void initialize() {
        task.initialize(new SourceContext(config, offsets, transaction, conversion.figures().of(Map.of())));
    }

    @Override
    public Map<String, Object> facts() {
        return Map.of("version", Questions.version(task), "callbacks", callbacks.described());
    }

    @Override
    public Answer call(Request request) throws Exception {
        return switch (request.operation()) {
            case "poll" -> Answer.repeatable(() -> poll(request));
            case "commit_records" -> commitRecords(request);
            case "commit" -> commit(request);
            case "update_offsets" -> updated(request);
            case "stop" -> stop();
            default -> throw new IllegalArgumentException("no such operation: " + request.operation());
        };
    }

    /** Return the next part of what the task has polled; ask it for more if there is none. */
    private Answer poll(Request request) throws Exception {
        offsets.update(request.offsets("committed"));
        columns.clear();
        Part part = new Part();
        if (isBatchMarkOpen) {  // the mark of the last record ended a part; the batch may have one of its own
            isBatchMarkOpen = false;
            part.mark = batchMark();
            if (part.mark != null) {
                return answer(part);
            }
        }
        if (next == polled.size()) {
            List<SourceRecord> found = task.poll();
            polled = found == null ? List.of() : new ArrayList<>(found);  // the task may go on with its list
            next = 0;
        }
        convert(part, request.number("max_bytes", MOST_BYTES));
        return part.taken == 0 && part.mark == null ? Answer.NOTHING : answer(part);
    }

    /** Convert polled records up to a mark, the end, or as many bytes. */
    private void convert(Part part, long mostBytes) throws InterruptedException {
        while (next < polled.size() && part.mark == null && (part.taken == 0 || size() < mostBytes)) {
            SourceRecord record = polled.get(next++);
            int row = columns.rows();
            boolean isKept = isConverted(record);
            if (conversion.tolerance.hasFailed()) {
                columns.addDropped(record, handed == null && conversion.tolerance.keepsRecords);
                if (handed != null) {
                    handed.add(record, null);
                }
                part.dropped.add(record.sourceOffset());
            }
            if (keepsOffsets && (isKept || conversion.tolerance.hasFailed())) {
                part.offsets.add(record.sourceOffset());
            }
            part.taken++;
            part.filtered += isKept || conversion.tolerance.hasFailed() ? 0 : 1;
            if (delivered != null) {
                delivered.add(number, record, isKept ? row : -1, isKept ? columns.lastTopic() : null);
            }
            if (record.sourcePartition() != null) {  // an offset that is null removes what is committed
                part.ends.remove(record.sourcePartition());  // so that the newest is the last of those that are one in JSON
                part.ends.put(record.sourcePartition(), record.sourceOffset());
            }
            part.mark = mark(record);
        }
        if (next == polled.size()) {
            isBatchMarkOpen = transaction != null && part.mark != null;
            part.mark = part.mark == null ? batchMark() : part.mark;
        }
    }

    private long size() {
        return columns.size() + conversion.tolerance.size() + (handed == null ? 0 : handed.size());
    }

    /** Add a record to the columns, unless it is filtered or fails. */
    private boolean isConverted(SourceRecord polled) throws InterruptedException {
        Tolerance tolerance = conversion.tolerance;
        int row = columns.rows();
        tolerance.begin();
        SourceRecord record = conversion.chain.apply(polled, tolerance, row);
        if (record == null) {
            return false;
        }
        if (handed != null) {  // Python converts it
            handed.add(record, polled);
            columns.add(polled, record, NO_HEADERS, null, null);
            return true;
        }
        Headers headers = tolerance.run("HEADER_CONVERTER", conversion.header, row,
                () -> Conversion.raw(record, conversion.header));
        byte[] key = tolerance.hasFailed() ? null : tolerance.run("KEY_CONVERTER", conversion.key, row,
                () -> conversion.key.fromConnectData(record.topic(), headers, record.keySchema(), record.key()));
        byte[] value = tolerance.hasFailed() ? null : tolerance.run("VALUE_CONVERTER", conversion.value, row,
                () -> conversion.value.fromConnectData(record.topic(), headers, record.valueSchema(), record.value()));
        if (tolerance.hasFailed()) {
            return false;
        }
        columns.add(polled, record, headers, key, value);
        return true;
    }

    private String mark(SourceRecord record) {
        return transaction == null ? null : transaction.shouldAbortOn(record) ? "abort"
                : transaction.shouldCommitOn(record) ? "commit" : null;
    }

    private String batchMark() {
        return transaction == null ? null : transaction.shouldAbortBatch() ? "abort"
                : transaction.shouldCommitBatch() ? "commit" : null;
    }

    /** Fail one record that Python cannot be sent, as its converter would. */
    private void refuse(Part part, int row, SourceRecord record, RuntimeException error) throws InterruptedException {
        conversion.tolerance.begin();
        conversion.tolerance.run("VALUE_CONVERTER", conversion.value, row, () -> {
            throw error;
        });
        part.dropped.add(record.sourceOffset());
    }

    private Answer answer(Part part) throws InterruptedException {
        LinkedHashMap<String, ByteBuffer> records = handed == null ? null
                : handed.taken((row, record, error) -> refuse(part, row, record, error));
        part.ends.forEach((partition, offset) -> {  // what Kafka Connect cannot store is refused before it is sent
            OffsetUtils.validateFormat(partition);
            OffsetUtils.validateFormat(offset);
        });
        Map<String, Object> facts = new HashMap<>();
        facts.put("number", number++);
        facts.put("ends", part.ends.entrySet().stream().map(each -> Arrays.asList(each.getKey(), each.getValue())).toList());
        facts.put("is_whole", next == polled.size());
        facts.put("mark", part.mark);
        facts.put("filtered", part.filtered);
        facts.put("dropped", part.dropped.stream().map(SourceService::storable).toList());
        if (keepsOffsets) {
            facts.put("offsets", part.offsets.stream().map(SourceService::storable).toList());
        }
        conversion.tolerance.report(facts);
        if (next == polled.size()) {
            polled = List.of();
            next = 0;
        }
        Answer answer = columns.answer(facts);
        return records == null ? answer : new Answer(answer.head(), records);
    }

    /** Return the offset of one record, for the header of its dead letter; null if Kafka Connect could not store it. */
    private static Map<String, ?> storable(Map<String, ?> offset) {
        try {
            OffsetUtils.validateFormat(offset);
            return offset;
        } catch (DataException error) {
            return null;
        }
    }

    private Answer commitRecords(Request request) {
        if (delivered != null) {
            delivered.tell(request.number("number", -1), (List<?>) request.head().get("metadata"));
        }
        return Answer.NOTHING;
    }

    private Answer commit(Request request) {
        offsets.update(request.offsets("committed"));
        try {
            task.commit();
        } catch (Throwable error) {  // as in Kafka Connect: what is committed stays so
            Logs.error(task.getClass(), "commit() failed", error);
        }
        return Answer.NOTHING;
    }

    private Answer updated(Request request) throws Exception {
        List<Object> changes = new ArrayList<>();
        callbacks.updated(task, request.offsets("offsets")).forEach((partition, offset) -> {
            OffsetUtils.validateFormat(partition);
            OffsetUtils.validateFormat(offset);
            changes.add(Arrays.asList(partition, offset));
        });
        return Answer.of(changes);
    }

    /** What one answer to "poll" has besides its columns. */
    private static final class Part {
        private final Map<Map<String, ?>, Map<String, ?>> ends = new LinkedHashMap<>();
        private final List<Map<String, ?>> dropped = new ArrayList<>();  // the offsets of these records
        private final List<Map<String, ?>> offsets = new ArrayList<>();  // those of all rows
        private int taken;
        private int filtered;
        private String mark;
    }
}
