package fencepost.host;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/** A sink task. */
final class SinkService extends TaskService<SinkTask, SinkRecord> {
    private final Membership membership = new Membership();
    private final SinkContext context;
    private final Records form = new Records();
    private List<SinkRecord> records = List.of();
    private int filtered;

    SinkService(Request request, Loaders loaders) throws Exception {
        super(request, loaders, SinkTask.class);
        context = new SinkContext(config, membership, request.flag("has_reporter"), conversion.tolerance,
                conversion.figures().of(Map.of()));
        start();
    }

    @Override
    void initialize() {
        task.initialize(context);
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
            task.open(partitions);
        }
        return effects(new HashMap<>());
    }

    private Answer close(Request request) {
        List<TopicPartition> partitions = partitions(request);
        task.close(partitions);
        membership.remove(partitions);
        return effects(new HashMap<>());
    }

    private Answer put(Request request) throws InterruptedException {
        Map<String, Object> facts = new HashMap<>();
        try {
            if (!request.flag("again")) {
                convert(request);
            }
        } catch (ConnectException error) {
            if (!conversion.tolerance.isExceeded()) {
                throw error;
            }
            facts.put("thrown", Thrown.described(error));  // an answer, as the record may become a dead letter
            return effects(facts);
        }
        try {
            task.put(records);
            records = List.of();
        } catch (RetriableException | org.apache.kafka.common.errors.RetriableException error) {
            facts.put("thrown", Thrown.described(error));
        }
        return effects(facts);
    }

    /** The runs of "places" are [topic, partition, topic of the records, how many] each. */
    private void convert(Request request) throws InterruptedException {
        if (request.buffer("records") != null) {
            take(request);
            return;
        }
        SinkColumns columns = new SinkColumns(request);
        List<?> places = request.list("places");
        records = new ArrayList<>(columns.rows);
        int row = 0;
        for (Object each : places) {
            List<?> run = (List<?>) each;
            TopicPartition place = Request.partition(run);
            String topic = (String) run.get(2);
            for (int end = row + ((Number) run.get(3)).intValue(); row < end; row++) {
                SinkRecord record = converted(columns, row, place, topic);
                if (record != null) {
                    records.add(record);
                }
            }
        }
    }

    /** Take records that Python has converted. */
    private void take(Request request) throws InterruptedException {
        records = new ArrayList<>();
        int row = 0;
        for (ConnectRecord<?> each : form.read(request, false)) {
            conversion.tolerance.begin();
            SinkRecord changed = transformed((SinkRecord) each, row++);
            if (changed != null) {
                records.add(changed);
            }
        }
    }

    private SinkRecord transformed(SinkRecord record, int row) throws InterruptedException {
        SinkRecord changed = conversion.chain.apply(record, conversion.tolerance, row);
        filtered += changed == null && !conversion.tolerance.hasFailed() ? 1 : 0;
        return changed;
    }

    /** "topic" is not that of "place" if the record was resent: it is one of the topic from which it once came. */
    private SinkRecord converted(SinkColumns columns, int row, TopicPartition place, String topic)
            throws InterruptedException {
        Tolerance tolerance = conversion.tolerance;
        tolerance.begin();
        RecordHeaders headers = columns.headers(row);
        SchemaAndValue key = tolerance.run("KEY_CONVERTER", conversion.key, row,
                () -> conversion.key.toConnectData(topic, headers, columns.key(row)));
        SchemaAndValue value = tolerance.hasFailed() ? null : tolerance.run("VALUE_CONVERTER", conversion.value, row,
                () -> conversion.value.toConnectData(topic, headers, columns.value(row)));
        ConnectHeaders found = tolerance.hasFailed() ? null : tolerance.run("HEADER_CONVERTER", conversion.header, row,
                () -> Conversion.connect(topic, headers, conversion.header));
        if (tolerance.hasFailed()) {
            return null;
        }
        SinkRecord record = new SinkRecord(topic, place.partition(), key.schema(), key.value(), value.schema(),
                value.value(), columns.offset(row), columns.timestamp(row), columns.timestampType(row), found,
                place.topic(), place.partition(), columns.offset(row));
        return transformed(record, row);
    }

    private Answer preCommit(Request request) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (Object each : request.list("offsets")) {
            List<?> parts = (List<?>) each;
            offsets.put(Request.partition(parts), new OffsetAndMetadata(((Number) parts.get(2)).longValue()));
        }
        Map<TopicPartition, OffsetAndMetadata> allowed = task.preCommit(offsets);
        List<List<Object>> found = new ArrayList<>();
        if (allowed != null) {
            allowed.forEach((each, offset) -> found.add(List.of(each.topic(), each.partition(), offset.offset())));
        }
        return effects(new HashMap<>(Map.of("offsets", found)));
    }

    private Answer effects(Map<String, Object> facts) {
        facts.putAll(context.effects());
        facts.put("filtered", filtered);
        filtered = 0;
        conversion.tolerance.report(facts);
        return Answer.of(facts);
    }

    private static List<TopicPartition> partitions(Request request) {
        List<TopicPartition> found = new ArrayList<>();
        request.list("partitions").forEach(each -> found.add(Request.partition((List<?>) each)));
        return found;
    }
}
