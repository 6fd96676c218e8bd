package fencepost.host;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.slf4j.ILoggerFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.helpers.FormattingTuple;
import org.slf4j.helpers.MessageFormatter;

/** The loggers of this JVM. A line carries the connector or task in whose thread, or a child of it, it was written. */
public final class Logs implements ILoggerFactory {
    static final int TRACE = 0;
    static final int DEBUG = 1;
    static final int INFO = 2;
    static final int WARN = 3;
    static final int ERROR = 4;
    private static final List<String> NAMES = List.of("TRACE", "DEBUG", "INFO", "WARN", "ERROR");
    private static final String ROOT = "";

    private static final Owner NOBODY = new Owner(null, null);
    private static final InheritableThreadLocal<Owner> OWNER = new InheritableThreadLocal<>();
    private static final ThreadLocal<Boolean> IS_SENDING = ThreadLocal.withInitial(() -> false);
    private static volatile Map<String, Integer> levels = Map.of(ROOT, INFO);
    private static volatile Events events;

    private final Map<String, Logger> loggers = new ConcurrentHashMap<>();

    @Override
    public Logger getLogger(String name) {
        return loggers.computeIfAbsent(name, HostLogger::new);
    }

    /** Log what the host itself has to say, about a plug-in or about a part of its own: under the name of that class. */
    static void warn(Class<?> about, String what) {
        LoggerFactory.getLogger(about).warn(what);
    }

    static void error(Class<?> about, String what, Throwable error) {
        LoggerFactory.getLogger(about).error(what, error);
    }

    static void sendTo(Events receiver) {
        events = receiver;
    }

    /** Say whose thread this is: a connector's or a task's. Its lines have the request's "subject". */
    static void setOwner(String name, Request request) {
        OWNER.set(new Owner(name, request.head().get("subject")));
        Thread.currentThread().setName(name);
    }

    /** Set the levels: that of a logger holds for those below it; the empty name is the root's. */
    static void setLevels(Map<String, String> named) {
        Map<String, Integer> found = new HashMap<>(Map.of(ROOT, INFO));
        named.forEach((name, level) -> found.put(name, NAMES.indexOf(level)));
        levels = Map.copyOf(found);
    }

    static boolean isEnabled(Logger logger, int level) {
        Map<String, Integer> known = levels;
        if (known.size() == 1) {
            return level >= known.get(ROOT);
        }
        String name = logger.getName();
        while (!known.containsKey(name)) {
            int dot = name.lastIndexOf('.');
            name = dot < 0 ? ROOT : name.substring(0, dot);
        }
        return level >= known.get(name);
    }

    static void log(Logger logger, int level, String format, Object... arguments) {
        if (isEnabled(logger, level)) {
            FormattingTuple line = MessageFormatter.arrayFormat(format, arguments);
            send(logger, level, line.getMessage(), line.getThrowable());
        }
    }

    static void thrown(Logger logger, int level, String message, Throwable error) {
        if (isEnabled(logger, level)) {
            send(logger, level, message, error);
        }
    }

    private static void send(Logger logger, int level, String message, Throwable error) {
        Events receiver = events;
        if (receiver == null || IS_SENDING.get()) {
            System.err.println(NAMES.get(level) + " " + logger.getName() + ": " + message);
            return;
        }
        IS_SENDING.set(true);
        try {
            Map<String, Object> line = new HashMap<>();
            line.put("event", "log");
            line.put("level", NAMES.get(level));
            line.put("logger", logger.getName());
            Owner owner = Objects.requireNonNullElse(OWNER.get(), NOBODY);
            line.put("owner", owner.name());
            line.put("subject", owner.subject());
            line.put("message", Thrown.whole(error == null ? message : message + "\n" + Thrown.trace(error).stripTrailing()));
            receiver.tell(line);
        } finally {
            IS_SENDING.set(false);
        }
    }

    private record Owner(String name, Object subject) {
    }
}
