package tests;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/**
 * Asks at each point of its calls whether it may go on, and keeps what it is given in a file: `put` writes all but the
 * last records, which wait for the next `put` or for `preCommit`. Each write is whole lines:
 *
 *     open LIFE RUN PARTITION
 *     put LIFE RUN PARTITION OFFSET VALUE
 */
public final class GatedSinkTask extends SinkTask {
    private static final int KEPT = 20;

    private final Map<Integer, String> runs = new HashMap<>();
    private List<String> kept = new ArrayList<>();
    private Gate gate;
    private Path file;
    private int opened;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> properties) {
        file = Path.of(properties.get("file"));
        gate = Gate.open(properties);
    }

    @Override
    public void open(Collection<TopicPartition> partitions) {
        opened++;
        List<String> lines = new ArrayList<>();
        for (TopicPartition each : partitions) {
            String run = gate.life + " " + opened + " " + each.partition();
            runs.put(each.partition(), run);
            lines.add("open " + run + "\n");
        }
        writeInHalves("open", lines);
    }

    @Override
    public void put(Collection<SinkRecord> records) {
        if (records.isEmpty()) {
            return;
        }
        for (SinkRecord record : records) {
            String run = runs.get(record.kafkaPartition());
            kept.add("put " + run + " " + record.kafkaOffset() + " " + record.value() + "\n");
        }
        int due = Math.max(0, kept.size() - KEPT);
        List<String> lines = kept.subList(0, due);
        kept = new ArrayList<>(kept.subList(due, kept.size()));
        writeInHalves("put", lines);
    }

    @Override
    public Map<TopicPartition, OffsetAndMetadata> preCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        writeInHalves("preCommit", kept);
        kept = new ArrayList<>();
        return offsets;
    }

    @Override
    public void close(Collection<TopicPartition> partitions) {
        for (TopicPartition each : partitions) {
            String closed = " " + runs.remove(each.partition()) + " ";
            kept.removeIf(line -> line.contains(closed));
        }
    }

    @Override
    public void stop() {
        if (gate != null) {
            gate.close();
        }
    }

    private void writeInHalves(String call, List<String> lines) {
        int middle = lines.size() / 2;
        gate.ask(call + " before");
        Diary.append(file, String.join("", lines.subList(0, middle)));
        gate.ask(call + " during");
        Diary.append(file, String.join("", lines.subList(middle, lines.size())));
        gate.ask(call + " after");
    }
}
