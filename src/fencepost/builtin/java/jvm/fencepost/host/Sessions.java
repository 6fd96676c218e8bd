package fencepost.host;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** The connections that Python has opened. */
final class Sessions {
    private static final long FIGURES_MS = 2_000;

    private final Loaders loaders;
    private final Events events;
    private final Map<Long, Session> open = new ConcurrentHashMap<>();
    private final AtomicLong last = new AtomicLong();

    Sessions(Loaders loaders, Events events) {
        this.loaders = loaders;
        this.events = events;
        Thread figures = new Thread(this::sendFigures, "figures");
        figures.setDaemon(true);
        figures.start();
    }

    /** Send the metrics of plug-ins to Python, for each connector and task that has some. */
    private void sendFigures() {
        while (true) {
            try {
                Thread.sleep(FIGURES_MS);
            } catch (InterruptedException error) {
                return;
            }
            for (Session session : open.values()) {
                List<Object> rows = session.figures();
                if (!rows.isEmpty()) {
                    events.tell(Map.of("event", "figures", "session", session.id(), "rows", rows));
                }
            }
        }
    }

    void begin(Wire wire) {
        long id = last.incrementAndGet();
        Session session = new Session(id, wire, this);
        open.put(id, session);
        session.start();
    }

    void ended(long id) {
        open.remove(id);
    }

    /** Create what a new connection is for. The answer to its first request is its number, with what there is to know. */
    Service service(long id, Request request) throws Exception {
        return switch (request.operation()) {
            case "control" -> this::control;
            case "questions" -> new Questions(loaders);
            case "connector" -> new ConnectorService(id, request, loaders, events);
            case "source" -> new SourceService(request, loaders);
            case "sink" -> new SinkService(request, loaders);
            case "chain" -> new ChainService(request, loaders);
            default -> throw new IllegalArgumentException("no such connection: " + request.operation());
        };
    }

    private Answer control(Request request) {
        switch (request.operation()) {
            case "interrupt" -> {
                Session session = open.get(request.number("session", -1));
                if (session != null) {
                    session.interruptCall();
                }
            }
            case "levels" -> Logs.setLevels(request.properties("levels"));
            case "threads" -> {
                return Answer.of(stacks());
            }
            default -> throw new IllegalArgumentException("no such operation: " + request.operation());
        }
        return Answer.NOTHING;
    }

    private static String stacks() {
        StringBuilder text = new StringBuilder();
        Thread.getAllStackTraces().forEach((thread, stack) -> {
            text.append(thread.getName()).append(' ').append(thread.getState()).append('\n');
            for (StackTraceElement line : stack) {
                text.append("    at ").append(line).append('\n');
            }
        });
        return text.toString();
    }
}
