package fencepost.host;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A sink task. */
final class SinkService extends TaskService<SinkTask, SinkRecord> {
    private final Membership membership = new Membership();
    private final SinkContext context;
    private final Reports reports;  // null without a reporter
    private final Records form = new Records();
    private List<SinkRecord> records = List.of();
    private int count;  // of the rows from which they come

    SinkService(Request request, Loaders loaders) throws Exception {
        super(request, loaders, SinkTask.class);
        reports = request.flag("has_reporter") ? new Reports(conversion, request.flag("passes_records")) : null;
        context = new SinkContext(config, membership, reports, conversion.figures().of(Map.of()));
        start();
    }

    @Override
    void initialize() {
        task.initialize(context);
    }

    @Override
    void afterStop() {
        if (reports != null) {
            reports.end();
        }
    }

    @Override
    public Map<String, Object> facts() {
        return Map.of("version", Questions.version(task));
    }

    @Override
    public Answer call(Request request) throws Exception {
        return switch (request.operation()) {
            case "open" -> open(request);
            case "put" -> put(request);
            case "pre_commit" -> preCommit(request);
            case "close" -> close(request);
            case "stop" -> stop();
            default -> throw new IllegalArgumentException("no such operation: " + request.operation());
        };
    }

    private Answer open(Request request) {
        List<TopicPartition> partitions = partitions(request);
        membership.add(partitions, (List<?>) request.head().get("member"));
        if (!partitions.isEmpty()) {  // else there is only a new generation of the group
            task.open(new ArrayList<>(partitions));
        }
        return effects(new HashMap<>());
    }

    private Answer close(Request request) {
        List<TopicPartition> partitions = partitions(request);
        task.close(new ArrayList<>(partitions));
        membership.remove(partitions);
        return effects(new HashMap<>());
    }

    /**
     * Put rows, at most "most_rows" in one call of the task. Further calls follow until all rows are put, or one of them
     * has brought about something that Python has to heed first, or "within_ms" are over. "puts" has, for each call, its
     * rows, how many of them were filtered or dropped, and its microseconds. What was thrown is of the last one.
     */
    private Answer put(Request request) throws InterruptedException {
        long until = System.nanoTime() + 1_000_000 * request.number("within_ms", 0);
        int most = (int) request.number("most_rows", Integer.MAX_VALUE);
        SinkRows rows = request.flag("again") ? null : new SinkRows(request, conversion, membership, form, reports != null);
        if (rows != null) {
            membership.forgetGiven();
        }
        List<long[]> puts = new ArrayList<>();
        Map<String, Object> facts = new HashMap<>(Map.of("puts", puts));
        try {
            do {
                put(rows, most, puts);
            } while (rows != null && rows.left() > 0 && !hasToTell() && System.nanoTime() - until < 0);
        } catch (Throwable error) {  // an answer, as what was put before counts, and a record may become a dead letter
            facts.put("thrown", Thrown.ofStep(error));
        }
        if (context.hasRewinds() || !facts.containsKey("thrown")) {
            membership.forgetGiven();
        }
        facts.put("filtered", rows == null ? 0 : rows.filtered());
        return effects(facts);
    }

    /** Put the next rows, or those that the task has refused if there are none. */
    private void put(SinkRows rows, int most, List<long[]> puts) throws InterruptedException {
        if (rows != null) {
            count = Math.min(most, rows.left());
        }
        long[] entry = {count, 0, 0};
        puts.add(entry);
        if (rows != null) {
            records = rows.next(count);
        }
        entry[1] = count - records.size();
        long began = System.nanoTime();
        try {
            task.put(new ArrayList<>(records));  // it may take them out, and refuse them then
        } finally {
            entry[2] = (System.nanoTime() - began) / 1000;
        }
        records = List.of();
    }

    private boolean hasToTell() {
        return context.hasEffects() || conversion.tolerance.hasFailures();
    }

    private Answer preCommit(Request request) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        request.positions("offsets").forEach((each, offset) -> offsets.put(each, new OffsetAndMetadata(offset)));
        Map<TopicPartition, OffsetAndMetadata> allowed = task.preCommit(offsets);
        List<List<Object>> found = new ArrayList<>();
        if (allowed != null) {
            allowed.forEach((each, offset) -> found.add(List.of(each.topic(), each.partition(), offset.offset())));
        }
        return effects(new HashMap<>(Map.of("offsets", found)));
    }

    private Answer effects(Map<String, Object> facts) {
        facts.putAll(context.effects());
        facts.putIfAbsent("filtered", 0);
        conversion.tolerance.report(facts);
        facts.put("errant", List.of());
        Session.endQuestions();  // Python counts reports in their order
        Map<String, ByteBuffer> buffers = reports == null ? Map.of() : reports.take(facts);
        return new Answer(Map.of("result", facts), buffers);
    }

    private static List<TopicPartition> partitions(Request request) {
        List<TopicPartition> found = new ArrayList<>();
        request.list("partitions").forEach(each -> found.add(Request.partition((List<?>) each)));
        return found;
    }
}
