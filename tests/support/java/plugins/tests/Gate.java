package tests;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.connect.errors.ConnectException;

/** A task's line to the test, which may hold it at each point where it asks (`support/chaos/sink_gates.py`). */
final class Gate implements AutoCloseable {
    private static final ThreadLocal<Gate> OF_THREAD = new ThreadLocal<>();

    final String life = UUID.randomUUID().toString().substring(0, 8);
    private final Socket socket;
    private final BufferedReader answers;

    private Gate(String connector, int port) throws IOException {
        socket = new Socket("127.0.0.1", port);
        answers = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
        send(connector + " " + life + " " + ProcessHandle.current().pid());
    }

    /** Open the gate of a task for its thread, in which its converters are called as well. */
    static Gate open(Map<String, String> properties) {
        try {
            Gate opened = new Gate(properties.get("name"), Integer.parseInt(properties.get("gate")));
            OF_THREAD.set(opened);
            return opened;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Return the gate of the task of this thread. */
    static Gate ofThread() {
        return OF_THREAD.get();
    }

    /** Wait until the test lets the task go on; it heeds no interrupt. */
    void ask(String point) {
        try {
            send(point);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void send(String line) throws IOException {
        socket.getOutputStream().write((line + "\n").getBytes(StandardCharsets.US_ASCII));
        if (answers.readLine() == null) {
            throw new ConnectException("the test is over");
        }
    }

    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
