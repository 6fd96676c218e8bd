package tests;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/** Ways in which a call of a plug-in does not return, or ends its JVM. */
final class Hang {
    private Hang() {
    }

    /** Do not return; `begins` is run first, or in it. Only "sleep" heeds an interrupt. */
    static void in(String what, Runnable begins) throws InterruptedException {
        if (what.equals("deadlock")) {
            deadlock(begins);
            return;
        }
        begins.run();
        switch (what) {
            case "sleep" -> Thread.sleep(600_000);
            case "loop" -> loop();
            case "socket" -> readSocket();
            case "exit" -> System.exit(7);
            case "memory" -> hoard();
            case "crash" -> crash();
            default -> throw new IllegalArgumentException(what);
        }
    }

    /** As a plug-in that catches everything. */
    static void loop() {
        while (true) {
            try {
                Thread.sleep(10);
            } catch (InterruptedException ignored) {
                Thread.onSpinWait();
            }
        }
    }

    private static void hoard() {
        List<long[]> kept = new ArrayList<>();
        while (true) {
            kept.add(new long[1 << 20]);
        }
    }

    /** Write to where nothing is, as a native library with a fault. */
    private static void crash() {
        try {
            var field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
            field.setAccessible(true);
            ((sun.misc.Unsafe) field.get(null)).putLong(0L, 0L);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void readSocket() {
        try (ServerSocket server = new ServerSocket(0); Socket silent = new Socket("127.0.0.1", server.getLocalPort())) {
            silent.getInputStream().read();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static void deadlock(Runnable begins) throws InterruptedException {
        Object one = new Object();
        Object other = new Object();
        Thread rival = new Thread(() -> {
            synchronized (other) {
                synchronized (one) {
                    other.notifyAll();
                }
            }
        });
        synchronized (one) {
            rival.start();
            while (rival.getState() != Thread.State.BLOCKED) {
                Thread.onSpinWait();
            }
            begins.run();
            synchronized (other) {
                other.notifyAll();
            }
        }
    }
}
