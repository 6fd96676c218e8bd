package fencepost.host;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.RetriableException;

/** Retries and tolerance around transforms and converters ("errors.*", KIP-298). One thread. */
final class Tolerance {
    private static final long FIRST_DELAY_MS = 300;

    /** Whether what is dropped becomes a dead letter. */
    final boolean keepsRecords;
    private final boolean toleratesAll;
    private final long timeoutMs;
    private final long mostDelayMs;
    private final boolean keepsTraces;
    private final List<List<Object>> failures = new ArrayList<>();
    private long traceChars;
    private long retries;
    private boolean hasFailed;

    Tolerance(Map<String, String> config) {
        toleratesAll = "all".equalsIgnoreCase(config.getOrDefault("errors.tolerance", "none"));
        timeoutMs = Long.parseLong(config.getOrDefault("errors.retry.timeout", "0").trim());
        mostDelayMs = Math.max(0, Long.parseLong(config.getOrDefault("errors.retry.delay.max.ms", "60000").trim()));
        keepsRecords = !config.getOrDefault("errors.deadletterqueue.topic.name", "").isBlank();
        keepsTraces = keepsRecords
                && Boolean.parseBoolean(config.getOrDefault("errors.deadletterqueue.context.headers.enable", "").trim());
    }

    /** Begin a record. */
    void begin() {
        hasFailed = false;
    }

    /** Say whether an operation on this record has failed and is tolerated. */
    boolean hasFailed() {
        return hasFailed;
    }

    /** Say whether operations have failed since the last report. */
    boolean hasFailures() {
        return !failures.isEmpty();
    }

    /** Return an exception's stack if dead letters are to have it, else null. Any thread. */
    String trace(Throwable error) {
        return keepsTraces ? Thrown.trace(error) : null;
    }

    /** Return about how many bytes the failures since the last report take. */
    long size() {
        return traceChars;
    }

    /** Run an operation of a plug-in on a record: null if it has failed and that is tolerated. */
    <T> T run(String stage, Object plugin, int row, Callable<T> operation) throws InterruptedException {
        try {
            return retried(operation);
        } catch (InterruptedException error) {
            throw error;  // the task is to stop: the record has no outcome
        } catch (Exception error) {
            hasFailed = true;
            String trace = trace(error);
            traceChars += trace == null ? 0 : trace.length();
            failures.add(Arrays.asList(
                    row, stage, error.getClass().getName(), Thrown.message(error), plugin.getClass().getName(), trace));
            if (!toleratesAll) {
                throw new ConnectException("Tolerance exceeded in error handler: stage '" + stage + "' failed", error);
            }
            return null;
        }
    }

    private <T> T retried(Callable<T> operation) throws Exception {
        long began = System.nanoTime();
        long delayMs = Math.min(FIRST_DELAY_MS, mostDelayMs);
        while (true) {
            try {
                return operation.call();
            } catch (RetriableException error) {
                long spentMs = (System.nanoTime() - began) / 1_000_000;
                if (timeoutMs >= 0 && spentMs >= timeoutMs) {
                    throw error;
                }
                retries++;
                long leftMs = timeoutMs < 0 ? Long.MAX_VALUE : timeoutMs - spentMs;
                Thread.sleep(Math.min(delayMs, leftMs));
                delayMs = Math.min(2 * delayMs, mostDelayMs);
            }
        }
    }

    /** Take what has happened since the last time: failures and the number of retries. */
    void report(Map<String, Object> head) {
        head.put("failures", List.copyOf(failures));
        head.put("retries", retries);
        failures.clear();
        traceChars = 0;
        retries = 0;
    }
}
