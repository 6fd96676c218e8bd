package fencepost.host;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.connect.errors.ConnectException;

/**
 * What this JVM tells and asks Python of itself: log lines, calls of a connector's context. Thread-safe.
 *
 * Only threads of its own read and write: an interrupt of a plug-in's thread would close the channel in which it is, and
 * with it end this JVM.
 */
final class Events extends Thread {
    private static final long MOST_FLUSH_NS = 2_000_000_000;

    private final Wire wire;
    private final Map<Long, CompletableFuture<Object>> asked = new ConcurrentHashMap<>();
    private final AtomicLong last = new AtomicLong();
    private final Runnable end;
    private final BlockingQueue<Map<String, Object>> outgoing = new ArrayBlockingQueue<>(1024);
    private final AtomicInteger unwritten = new AtomicInteger();

    /** "end" is run before this JVM ends. */
    Events(Wire wire, Runnable end) {
        super("events");
        this.end = end;
        setDaemon(true);
        this.wire = wire;
    }

    /** Read answers. When Python is gone, so are we. */
    @Override
    public void run() {
        Thread writer = new Thread(this::writeAll, "events-writer");
        writer.setDaemon(true);
        writer.start();
        try {
            for (Request answer = wire.read(); answer != null; answer = wire.read()) {
                CompletableFuture<Object> waiting = asked.remove(answer.number("id", -1));
                if (waiting != null && answer.text("error") != null) {
                    waiting.completeExceptionally(new ConnectException(answer.text("error")));
                } else if (waiting != null) {
                    waiting.complete(answer.head().get("result"));
                }
            }
        } catch (Throwable error) {
            System.err.println("the connection to Python failed: " + error);
        }
        end.run();
        Runtime.getRuntime().halt(0);
    }

    private void writeAll() {
        while (true) {
            try {
                wire.write(new Answer(outgoing.take(), Map.of()));
            } catch (IOException | InterruptedException error) {  // when the channel has failed, "run" ends this JVM
                System.err.println("an event was not sent: " + error);
            }
            unwritten.decrementAndGet();
        }
    }

    /** Wait a moment for what is not written yet: this JVM exits. */
    void flush() {
        long end = System.nanoTime() + MOST_FLUSH_NS;
        while (unwritten.get() > 0 && System.nanoTime() < end) {
            LockSupport.parkNanos(1_000_000);
        }
    }

    /** Send an event. Waits if many are waiting, whether this thread is interrupted or not. */
    void tell(Map<String, Object> event) {
        unwritten.incrementAndGet();
        boolean isInterrupted = false;
        while (true) {
            try {
                outgoing.put(event);
                break;
            } catch (InterruptedException error) {
                isInterrupted = true;
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    Object ask(Map<String, Object> question) throws Exception {
        CompletableFuture<Object> waiting = new CompletableFuture<>();
        long id = last.incrementAndGet();
        asked.put(id, waiting);
        Map<String, Object> event = new HashMap<>(question);
        event.put("id", id);
        tell(event);
        return waiting.get();
    }
}
