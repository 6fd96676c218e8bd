package fencepost.host;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.io.IOException;
import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.Supplier;
import org.apache.kafka.common.KafkaException;

/** A connection that Python has opened, and its thread, in which everything of it is called. */
final class Session extends Thread {
    private final long id;
    private final Wire wire;
    private final Sessions sessions;
    private volatile Service service;
    private final Object turn = new Object();  // of writing, and of reading a reply
    private boolean isAnswerDue;  // so Python reads, and may be asked; guarded by "turn"
    private boolean isWaiting;  // another thread of the host, to ask something
    private long asks;  // of other threads, so far
    private boolean hasEnded;
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
        try (wire) {
            for (Request request = wire.readOver(); request != null; request = wire.readOver()) {
                Request asked = request;
                beginTurn();
                write(answered(() -> {
                    if (service != null) {
                        return service.call(asked);
                    }
                    service = sessions.service(id, asked);
                    return opened(service);
                }));
            }
        } catch (Exception error) {
            System.err.println(getName() + " ends: " + error);
        } finally {
            endTurns();
            sessions.ended(id);
            Thread.interrupted();  // it may be why the connection has ended
            if (service != null) {
                service.end();
            }
        }
    }

    long id() {
        return id;
    }

    List<Object> figures() {
        Service current = service;
        return current == null ? List.of() : current.figures();
    }

    /** Send an answer, or why it cannot be written as JSON. */
    private void write(Answer answer) throws IOException {
        synchronized (turn) {
            isAnswerDue = false;
            try {
                wire.write(answer);
            } catch (JsonProcessingException | StackOverflowError error) {  // nothing of it has been sent
                wire.write(Answer.thrown(error));
            }
        }
    }

    /**
     * End what other threads may ask within this call, after what has waited for it, however short the call is. What is taken
     * for its answer after this is not overtaken by a question. Only the thread of the session may do this.
     */
    static void endQuestions() {
        ((Session) Thread.currentThread()).endTurn();
    }

    private void endTurn() {
        synchronized (turn) {
            try {
                for (long before = asks; isWaiting && asks == before;) {
                    turn.wait();
                }
            } catch (InterruptedException error) {  // the task is abandoned
                isWaiting = false;
            }
            isAnswerDue = false;
        }
    }

    private void beginTurn() {
        synchronized (turn) {
            isAnswerDue = true;
            turn.notifyAll();
        }
    }

    private void endTurns() {
        synchronized (turn) {
            hasEnded = true;
            turn.notifyAll();
        }
    }

    private Answer opened(Service service) throws Exception {
        Map<String, Object> facts = new HashMap<>(Map.of("session", id));
        facts.putAll(service.facts());
        return Answer.of(facts);
    }

    private Answer answered(Callable<Answer> call) {
        try {
            setCalling(true);
            return call.call();
        } catch (Throwable error) {  // an Error, too, is the plug-in's: it fails the task, not the host
            return Answer.thrown(error);
        } finally {
            setCalling(false);
        }
    }

    /**
     * Ask Python something in the middle of a call, and wait for the result. Only its own thread may: Python waits for
     * the call, and for nothing else.
     */
    static Object ask(String what, Map<String, Object> arguments) {
        if (!(Thread.currentThread() instanceof Session session)) {
            throw new ConcurrentModificationException(
                    what + " can only be called in the thread in which the task is called");
        }
        return session.asked(what, arguments);
    }

    private Object asked(String what, Map<String, Object> arguments) {
        setCalling(false);
        try {
            return replied(what, () -> new Answer(arguments, Map.of()));
        } catch (IOException error) {
            throw new KafkaException(error);
        } finally {
            setCalling(true);
        }
    }

    /**
     * Ask Python something within the next call, or the one that is under way, and wait for the result. Only for threads of
     * the host, one at a time: an interrupt of a plug-in's would close the connection. "question" is called when it can be
     * sent.
     */
    Object askFromOutside(String what, Supplier<Answer> question) throws IOException, InterruptedException {
        synchronized (turn) {
            isWaiting = true;
            try {
                while (!isAnswerDue && !hasEnded) {
                    turn.wait();
                }
                if (hasEnded) {
                    throw new KafkaException("the task has ended");
                }
                return replied(what, question);
            } finally {
                isWaiting = false;
                asks++;
                turn.notifyAll();
            }
        }
    }

    private Object replied(String what, Supplier<Answer> question) throws IOException {
        synchronized (turn) {
            Answer asked = question.get();
            Map<String, Object> head = new HashMap<>(asked.head());
            head.put("question", what);
            wire.write(new Answer(head, asked.buffers()));
            Request reply = wire.read();
            if (reply == null) {
                throw new KafkaException("the connection to Python has ended");
            }
            if (reply.text("error") != null) {
                throw new KafkaException(what + " failed: " + reply.text("error"));
            }
            return reply.head().get("result");
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
}
