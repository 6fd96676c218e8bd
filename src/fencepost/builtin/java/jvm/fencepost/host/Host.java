package fencepost.host;

import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * The JVM that runs Java plug-ins for one process of Python's.
 *
 * Its argument is a private directory, in which Python listens at "worker" and this at "host". The first connection, to
 * Python, carries events; when it ends, so does this JVM, whatever plug-ins are doing. Python opens all others: one for
 * each connector and task, with a thread of its own here.
 */
public final class Host {
    private Host() {
    }

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of(directory.resolve("host")));
        Events events = new Events(connected(directory), () -> clear(directory));
        events.start();
        Logs.sendTo(events);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            reportExit();
            events.flush();
        }));
        try {
            Sessions sessions = new Sessions(new Loaders(), events);
            new Garbage().start();
            while (true) {
                sessions.begin(new Wire(server.accept()));
            }
        } catch (Throwable error) {  // a host that takes no connections is of no use
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static Wire connected(Path directory) throws IOException {
        try {
            return Wire.to(directory.resolve("worker"));
        } catch (IOException error) {  // Python has ended meanwhile
            clear(directory);
            throw error;
        }
    }

    /** Remove the directory: Python may not be there any more to do it. */
    private static void clear(Path directory) {
        for (String each : List.of("worker", "host", "owner", "")) {
            try {
                Files.deleteIfExists(directory.resolve(each));
            } catch (IOException error) {
                System.err.println(directory + " was not removed: " + error);
            }
        }
    }

    /** Print who has called System.exit, which ends all tasks of this host. */
    private static void reportExit() {
        for (Map.Entry<Thread, StackTraceElement[]> each : Thread.getAllStackTraces().entrySet()) {
            StackTraceElement[] stack = each.getValue();
            for (int i = 0; i < stack.length; i++) {
                if (stack[i].getClassName().equals("java.lang.System") && stack[i].getMethodName().equals("exit")) {
                    String caller = i + 1 < stack.length ? " by " + stack[i + 1] : "";
                    System.err.println("System.exit was called in thread " + each.getKey().getName() + caller);
                }
            }
        }
    }
}
