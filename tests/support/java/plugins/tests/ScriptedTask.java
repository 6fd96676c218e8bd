package tests;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;
import org.apache.kafka.connect.header.Headers;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.slf4j.LoggerFactory;

/**
 * Polls what its config says: "polls" has polls, divided by ";", of items, divided by ",".
 *
 * An item is a value (of source partition p, or with "value@q" of q), perhaps with "+commit" or "+abort" for its record;
 * or an act: "!commit" and "!abort" of the batch, and the others below. What it is told goes to the file "diary". With
 * "stays" it does not stop.
 */
public final class ScriptedTask extends SourceTask {
    private final List<String> polls = new ArrayList<>();
    private Path diary;
    private long count;
    private boolean stays;

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public void start(Map<String, String> properties) {
        polls.addAll(Arrays.asList(properties.get("polls").split(";")));
        diary = Path.of(properties.get("diary"));
        stays = properties.containsKey("stays");
        Map<String, Object> offset = context.offsetStorageReader().offset(Map.of("p", "p"));
        count = offset == null ? 0 : (Long) offset.get("n");
        write("start " + offset);
    }

    @Override
    public List<SourceRecord> poll() throws InterruptedException {
        if (polls.isEmpty()) {
            return null;
        }
        List<SourceRecord> found = new ArrayList<>();
        for (String item : polls.remove(0).split(",")) {
            if (item.startsWith("!")) {
                act(item.substring(1));
            } else if (!item.isEmpty()) {
                found.add(record(item));
            }
        }
        return found;
    }

    private SourceRecord record(String item) {
        String[] parts = item.split("\\+", 2);
        String[] value = parts[0].split("@", 2);
        Map<String, Object> offset = new HashMap<>();
        offset.put("n", ++count);
        String partition = value.length > 1 ? value[1] : "p";
        if (value[0].equals("half")) {
            offset.put("half", String.valueOf((char) 0xD800));
        }
        if (value[0].equals("circle")) {
            offset.put("circle", offset);
        }
        if (value[0].equals("nested")) {
            offset.put("n", Map.of("m", count));
        }
        if (value[0].equals("nameless")) {
            offset.put(null, count);
        }
        Integer place = value[0].startsWith("to") ? Integer.valueOf(value[0].substring(2)) : null;
        String topic = value[0].equals("nowhere") ? null : "t-" + partition;
        Object odd = Odd.value(value[0]);
        Schema schema = odd instanceof Struct struct ? struct.schema() : odd == null ? Schema.OPTIONAL_STRING_SCHEMA : null;
        SourceRecord record = new SourceRecord(Map.of("p", partition), value[0].equals("no-offset") ? null : offset, topic, place,
                Schema.STRING_SCHEMA, "k" + count, schema, odd != null ? odd : value[0].equals("null") ? null : value[0]);
        if (value[0].startsWith("h")) {
            addHeaders(record.headers(), value[0]);
        }
        if (parts.length > 1 && parts[1].equals("commit")) {
            context.transactionContext().commitTransaction(record);
        } else if (parts.length > 1) {
            context.transactionContext().abortTransaction(record);
        }
        return record;
    }

    private static void addHeaders(Headers headers, String value) {
        switch (value) {
            case "h-half" -> headers.addString((char) 0xD800 + "one", "1");
            case "h-null" -> headers.addString("one", null).addString("two", null);
            case "h-twice" -> headers.addString("one", "1").addString("one", "2");
            case "h-order" -> headers.addString("two", "h1").addString("one", "1");
            default -> headers.addString("one", "1").addString("two", value);
        }
    }

    private void act(String what) throws InterruptedException {
        switch (what) {
            case "commit" -> context.transactionContext().commitTransaction();
            case "abort" -> context.transactionContext().abortTransaction();
            case "retriable" -> throw new RetriableException("the source is away");
            case "late" -> throw new TimeoutException("the source is late");
            case "fail" -> throw new ConnectException("cannot poll", new IOException("no route to the source"));
            case "offset" -> write("offset " + context.offsetStorageReader().offset(Map.of("p", "p")));
            case "overflow" -> deeper(0);
            case "deep" -> deep(7000);
            case "half" -> throw new ConnectException("half of a pair: \ud83d");
            case "mute" -> throw new Mute();
            case "interrupted" -> logInterrupted();
            case "interrupt-later" -> interruptLater();
            default -> Hang.in(what, () -> write("hangs in " + what));
        }
    }

    /** Its message cannot be had. */
    private static final class Mute extends RuntimeException {
        @Override
        public String getMessage() {
            throw new IllegalStateException("no message");
        }
    }

    /** Log as many plug-ins do that were interrupted, here and in a thread of their own. */
    private static void logInterrupted() throws InterruptedException {
        Runnable logs = () -> {
            Thread.currentThread().interrupt();
            LoggerFactory.getLogger(ScriptedTask.class).info("it was interrupted");
        };
        Thread own = new Thread(logs);
        own.start();
        own.join();
        logs.run();
    }

    /** Interrupt this thread while it waits for the next call, as a thread of a plug-in's may do that is late. */
    private void interruptLater() {
        Thread task = Thread.currentThread();
        new Thread(() -> {
            while (Arrays.stream(task.getStackTrace()).noneMatch(each -> each.getClassName().endsWith(".Wire"))) {
                Thread.onSpinWait();
            }
            task.interrupt();
            write("has interrupted");
        }).start();
    }

    private static int deeper(int depth) {
        return deeper(depth + 1) + 1;
    }

    private static int deep(int left) {
        return left == 0 ? 0 : deep(left - 1) + 1;
    }

    @Override
    public void commit() {
        write("commit");
    }

    @Override
    public void commitRecord(SourceRecord record, RecordMetadata metadata) {
        write("record " + record.value() + " " + metadata);
    }

    /** KIP-910, which Kafka Connect does not have. */
    public Map<Map<String, Object>, Map<String, Object>> updateOffsets(Map<Map<String, Object>, Map<String, Object>> offsets) {
        write("update " + offsets);
        Map<Map<String, Object>, Map<String, Object>> changes = new HashMap<>();
        changes.put(Map.of("p", "idle"), Map.of("n", count));
        changes.put(Map.of("p", "gone"), null);
        return changes;
    }

    @Override
    public void stop() {
        write("stop");
        if (stays) {
            Hang.loop();
        }
    }

    private void write(String line) {
        Diary.append(diary, line + "\n");
    }
}
