package fencepost.host;

import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Finds out which reported records are safe, once the task wants to know of one. A thread of its own asks Python, within the
 * call that is under way or the next one. So a call may wait for the threads of its task that wait for this.
 */
final class Acknowledgements {
    private final Session session;
    private final Reports reports;
    private final NavigableMap<Long, CompletableFuture<Void>> awaited = new TreeMap<>();
    private boolean isAsking;
    private long asked;

    Acknowledgements(Session session, Reports reports) {
        this.session = session;
        this.reports = reports;
    }

    /** Return what is done once the record with that number, from 1 on, is safe. */
    Future<Void> of(long number) {
        return new Written(number);
    }

    private synchronized CompletableFuture<Void> await(long number) {
        CompletableFuture<Void> found = awaited.computeIfAbsent(number, ignored -> new CompletableFuture<>());
        if (!isAsking) {
            isAsking = true;
            Thread thread = new Thread(this::ask, "reports-of-" + session.getName());
            thread.setDaemon(true);
            thread.start();
        }
        return found;
    }

    private void ask() {
        try {
            while (isAwaited()) {
                complete((Long) session.askFromOutside("report", this::question));
            }
        } catch (Throwable error) {
            fail(error);
        }
    }

    private Answer question() {
        asked = reports.count();
        return reports.question();
    }

    private synchronized boolean isAwaited() {
        isAsking = !awaited.isEmpty();
        return isAsking;
    }

    private synchronized void complete(long safe) {
        Map<Long, CompletableFuture<Void>> done = awaited.headMap(safe, true);
        done.values().forEach(each -> each.complete(null));
        done.clear();
        if (!awaited.isEmpty() && awaited.firstKey() <= asked) {
            throw new IllegalStateException("Python knows of " + safe + " of " + asked + " reported records");
        }
    }

    private synchronized void fail(Throwable error) {
        awaited.values().forEach(each -> each.completeExceptionally(error));
        awaited.clear();
        isAsking = false;
    }

    /** It is asked for when somebody first looks. */
    private final class Written implements Future<Void> {
        private final long number;
        private CompletableFuture<Void> done;

        Written(long number) {
            this.number = number;
        }

        private synchronized CompletableFuture<Void> done() {
            if (done == null) {
                done = await(number);
            }
            return done;
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            return false;
        }

        @Override
        public boolean isCancelled() {
            return false;
        }

        @Override
        public boolean isDone() {
            return done().isDone();
        }

        @Override
        public Void get() throws InterruptedException, ExecutionException {
            return done().get();
        }

        @Override
        public Void get(long timeout, TimeUnit unit) throws InterruptedException, ExecutionException, TimeoutException {
            return done().get(timeout, unit);
        }
    }
}
