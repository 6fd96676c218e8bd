package fencepost.host;

import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/** Sends the metrics of plug-ins to Python, for each connector and task that has some. */
final class FigureSender extends Thread {
    private static final long EVERY_MS = 2_000;

    private final Supplier<Iterable<Session>> sessions;
    private final Events events;

    FigureSender(Supplier<Iterable<Session>> sessions, Events events) {
        super("figures");
        setDaemon(true);
        this.sessions = sessions;
        this.events = events;
    }

    @Override
    public void run() {
        while (true) {
            try {
                Thread.sleep(EVERY_MS);
            } catch (InterruptedException error) {
                return;
            }
            for (Session session : sessions.get()) {
                List<Object> rows = session.figures();
                if (!rows.isEmpty()) {
                    events.tell(Map.of("event", "figures", "session", session.id(), "rows", rows));
                }
            }
        }
    }
}
