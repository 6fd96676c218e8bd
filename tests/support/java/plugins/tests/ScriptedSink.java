package tests;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.runtime.WorkerSinkTaskContext;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Writes what it is given to the file "diary"; values that start with "!" are acts. */
public final class ScriptedSink extends SinkTask {
    private static final Logger log = LoggerFactory.getLogger(ScriptedSink.class);

    private Path diary;
    private boolean hasRefused;
    private boolean reportsInStop;
    private Collection<SinkRecord> given = List.of();
    private Future<Void> reported;
    private List<String> times = List.of();
    private final List<SinkRecord> all = new ArrayList<>();

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public void start(Map<String, String> properties) {
        diary = Path.of(properties.get("diary"));
        if (properties.containsKey("is.away")) {
            throw new RetriableException("the store is not there yet");
        }
    }

    @Override
    public void open(Collection<TopicPartition> partitions) {
        write("open " + partitions + " of " + context.assignment().size());
    }

    @Override
    public void put(Collection<SinkRecord> records) {
        given = records;
        times = records.stream().map(each -> each.timestampType().toString()).toList();
        all.addAll(records);
        for (SinkRecord record : records) {
            write(record.topic() + "-" + record.kafkaPartition() + "@" + record.kafkaOffset() + " " + record.key() + "="
                    + record.value() + " " + record.timestamp() + " " + record.headers());
            if (record.value() instanceof String act && act.startsWith("!")) {
                act(act.substring(1), record);
            }
        }
    }

    private void act(String what, SinkRecord record) {
        TopicPartition place = new TopicPartition(record.originalTopic(), record.originalKafkaPartition());
        switch (what) {
            case "retriable" -> refuse();
            case "take-and-refuse" -> takeAndRefuse();
            case "late" -> throw new TimeoutException("the coordinator is late");
            case "fail" -> throw new ConnectException("cannot put", new IOException("no space left"));
            case "rewind" -> context.offset(place, 5L);
            case "rewind to nothing" -> rewindToNothing(place);
            case "timeout" -> context.timeout(250);
            case "pause" -> context.pause(place);
            case "resume" -> context.resume(place);
            case "commit" -> context.requestCommit();
            case "report" -> report(record);
            case "report and wait" -> reportAndWait(record);
            case "report, and wait for those who wait" -> elsewhere(() -> reportAndWait(record));
            case "report and look later" -> reported = report(record);
            case "is it written" -> write("written " + reported.isDone());
            case "report the first in stop" -> reportsInStop = true;
            case "report the first" -> report(all.get(0));
            case "report a new one" -> report(new SinkRecord(record.topic(), record.kafkaPartition(), null, null,
                    Schema.STRING_SCHEMA, "made", record.kafkaOffset()));
            case "reporter" -> write("reporter " + context.errantRecordReporter());
            case "group" -> write("group " + consumer().groupMetadata());
            case "consumer" -> consumer().poll(java.time.Duration.ZERO);
            case "committed" -> write("committed " + consumer().committed(consumer().assignment()));
            case "elsewhere" -> elsewhere(() -> consumer().committed(Set.of(place)));
            case "position" -> write("position " + consumer().position(place));
            case "position of t-1" -> write("position of t-1: " + consumer().position(new TopicPartition("t", 1)));
            case "edges" -> write("edges " + consumer().beginningOffsets(Set.of(place)) + consumer().endOffsets(Set.of(place)));
            case "all" -> write("all " + all.stream().map(SinkRecord::value).toList());
            case "times" -> write("times " + times);
            case "seek" -> consumer().seek(place, 3);
            case "log" -> log.warn("wrote {} of {}", record.value(), 2, new ConnectException("almost"));
            case "slow" -> sleep();
            case "debug" -> log.debug("a detail");
            default -> throw new IllegalArgumentException(what);
        }
    }

    private void reportAndWait(SinkRecord record) {
        try {
            report(record).get();
            write("reported");
        } catch (InterruptedException | ExecutionException error) {
            throw new ConnectException("it was not reported", error);
        }
    }

    private Future<Void> report(SinkRecord record) {
        return context.errantRecordReporter().report(record, new DataException("unreadable"));
    }

    private static void sleep() {
        try {
            Thread.sleep(150);
        } catch (InterruptedException error) {
            throw new ConnectException(error);
        }
    }

    private void rewindToNothing(TopicPartition place) {
        Map<TopicPartition, Long> offsets = new HashMap<>(Map.of(new TopicPartition("t", 1), 5L));
        offsets.put(place, null);
        context.offset(offsets);
    }

    private void refuse() {
        if (!hasRefused) {
            hasRefused = true;
            context.timeout(100);
            throw new RetriableException("the store is away");
        }
    }

    /** Refuse records as a task does that moves them to a list of its own. */
    private void takeAndRefuse() {
        if (!hasRefused) {
            given.clear();
        }
        refuse();
    }

    /** Run in another thread, and throw what that has thrown. */
    private static void elsewhere(Runnable act) {
        try {
            CompletableFuture.runAsync(act).join();
        } catch (CompletionException error) {
            throw (RuntimeException) error.getCause();
        }
    }

    /** Look at the consumer as Iceberg's sink does. */
    private Consumer<?, ?> consumer() {
        try {
            Field field = WorkerSinkTaskContext.class.getDeclaredField("consumer");
            field.setAccessible(true);
            return (Consumer<?, ?>) field.get(context);
        } catch (ReflectiveOperationException error) {
            throw new ConnectException(error);
        }
    }

    @Override
    public Map<TopicPartition, OffsetAndMetadata> preCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<TopicPartition, OffsetAndMetadata> allowed = new HashMap<>();
        offsets.forEach((place, offset) -> allowed.put(place, new OffsetAndMetadata(offset.offset() - 1)));
        return allowed;
    }

    @Override
    public void close(Collection<TopicPartition> partitions) {
        write("close " + partitions);
        partitions.clear();
    }

    @Override
    public void stop() {
        write("stop");
        if (reportsInStop) {
            report(all.get(0));
        }
    }

    private void write(String line) {
        Diary.append(diary, line + "\n");
    }
}
