package fencepost.host;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;

/** A connection that Python has opened, and its thread, in which everything of it is called. */
final class Session extends Thread {
    private final long id;
    private final Wire wire;
    private final Sessions sessions;
    private boolean isCalling;  // only then may the thread be interrupted: at other times it would close the channel

    Session(long id, Wire wire, Sessions sessions) {
        super("session-" + id);
        setDaemon(true);
        this.id = id;
        this.wire = wire;
        this.sessions = sessions;
    }

    @Override
    public void run() {
        Service[] service = {null};
        try (wire) {
            for (Request request = wire.read(); request != null; request = wire.read()) {
                Request asked = request;
                write(answered(() -> {
                    if (service[0] != null) {
                        return service[0].call(asked);
                    }
                    service[0] = sessions.service(id, asked);
                    return opened(service[0]);
                }));
            }
        } catch (Exception error) {
            System.err.println(getName() + " ends: " + error);
        } finally {
            sessions.ended(id);
            Thread.interrupted();  // it may be why the connection has ended
            if (service[0] != null) {
                service[0].end();
            }
        }
    }

    /** Send an answer, or why it cannot be written as JSON. */
    private void write(Answer answer) throws IOException {
        try {
            wire.write(answer);
        } catch (JsonProcessingException | StackOverflowError error) {  // nothing of it has been sent
            wire.write(Answer.thrown(error));
        }
    }

    private Answer opened(Service service) throws Exception {
        Map<String, Object> facts = new HashMap<>(Map.of("session", id));
        if (service instanceof Described described) {
            facts.putAll(described.facts());
        }
        return Answer.of(facts);
    }

    private Answer answered(Loaders.Call<Answer> call) {
        try {
            setCalling(true);
            return call.call();
        } catch (Throwable error) {  // an Error, too, is the plug-in's: it fails the task, not the host
            return Answer.thrown(error);
        } finally {
            setCalling(false);
        }
    }

    private synchronized void setCalling(boolean isCalling) {
        this.isCalling = isCalling;
        Thread.interrupted();
    }

    synchronized void interruptCall() {
        if (isCalling) {
            interrupt();
        }
    }

    /** A service that has something to say when it is opened. */
    interface Described {
        Map<String, Object> facts() throws Exception;
    }
}
