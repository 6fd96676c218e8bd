package fencepost.host;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** What this JVM tells and asks Python of itself: log lines, calls of a connector's context. Thread-safe. */
final class Events extends Thread {
    private final Wire wire;
    private final Map<Long, CompletableFuture<Object>> asked = new ConcurrentHashMap<>();
    private final AtomicLong last = new AtomicLong();
    private final Runnable end;

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
        try {
            for (Request answer = wire.read(); answer != null; answer = wire.read()) {
                CompletableFuture<Object> waiting = asked.remove(answer.number("id", -1));
                if (waiting != null) {
                    waiting.complete(answer.head().get("result"));
                }
            }
        } catch (Throwable error) {
            System.err.println("the connection to Python failed: " + error);
        }
        end.run();
        Runtime.getRuntime().halt(0);
    }

    void tell(Map<String, Object> event) {
        try {
            synchronized (wire) {
                wire.write(new Answer(event, Map.of()));
            }
        } catch (IOException error) {
            System.err.println("an event was not sent: " + error);
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
