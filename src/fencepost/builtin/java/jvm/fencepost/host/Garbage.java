package fencepost.host;

/**
 * Frees what nothing uses any more, by the clock: Java itself looks for it only when its heap is full. What is free goes
 * back to the system. As for Python's in a slot, this takes one part in 200 of the time at most.
 *
 * Under load the heap is larger: Java collects the garbage of new objects the more often the smaller it is. One that has
 * become too large, or is no longer needed, does not wait for its part of the time.
 *
 * What a task has let go may be all that is to be found: nothing new says so. So it is looked for now and then anyhow.
 */
class Garbage extends Thread {
    private static final long TICK_MS = 2_000;
    private static final long EVERY_MS = 10_000;
    private static final long ANYHOW_MS = 60_000;
    private static final long LONGEST_PAUSE_MS = 3_600_000;  // a collection of 18 s was a process that stood still
    private static final long LARGEST_SHARE = 200;
    private static final long SHARE_OF_A_MISTAKE = 20;
    private static final long LEAST_BYTES = 4 << 20;
    private static final long BUSY = 10;  // collections in a tick, of a small heap
    private static final long CALM = 1;  // of a large one
    private static final int TICKS = 3;  // in a row; a start is as busy, but shorter

    FreeHeap heap;  // null if its size is not ours to choose
    private boolean isLarge;
    private int ticks;  // in a row that call for the other size
    private long collections;
    private long usedBytes;  // after the last collection here
    private long collectedMs = now();
    private long tookMs;

    Garbage() {
        super("garbage");
        setDaemon(true);
    }

    @Override
    public void run() {
        heap = FreeHeap.ours();
        while (true) {
            try {
                Thread.sleep(TICK_MS);
            } catch (InterruptedException error) {
                return;
            }
            try {
                tick();
            } catch (OutOfMemoryError error) {
                continue;  // the host goes on after one if the user says so: then more than ever
            } catch (LinkageError | RuntimeException error) {
                heap = null;
                isLarge = false;
                Logs.error(Garbage.class, "the heap keeps its size", error);
            }
        }
    }

    void tick() {
        boolean isWrong = heap != null && isWrong();
        long sinceMs = now() - collectedMs;
        boolean isDue = sinceMs >= Math.max(EVERY_MS, pauseMs(LARGEST_SHARE));
        if (isWrong && (isLarge || sinceMs >= pauseMs(LARGEST_SHARE))) {  // a host at rest has the time
            resize();
            collect();
            if (isLarge && heap.isTooLarge()) {  // what was in use was known from long ago
                heap.keepMuch();
                collect();
            }
        } else if (isLarge && sinceMs >= Math.max(EVERY_MS, pauseMs(SHARE_OF_A_MISTAKE)) && heap.isTooLarge()) {
            heap.keepMuch();
            collect();
        } else if (isDue && (sinceMs >= ANYHOW_MS || used() >= usedBytes + LEAST_BYTES)) {
            collect();
        }
        if (isLarge) {
            heap.keepMuch();  // of what is in use now, for Java's own collections
        }
    }

    /** Return for how long no collection may follow, so that they take no more than this part of the time. */
    private long pauseMs(long share) {
        return Math.min(tookMs * share, LONGEST_PAUSE_MS);
    }

    /** Say whether the heap has had the wrong size for what was done in the last ticks. */
    private boolean isWrong() {
        long before = collections;
        collections = heap.collections();
        boolean isWrong = isLarge ? collections - before <= CALM : collections - before >= BUSY;
        ticks = isWrong ? ticks + 1 : 0;
        return ticks >= TICKS;
    }

    private void resize() {
        ticks = 0;
        isLarge = !isLarge;
        if (isLarge) {
            heap.keepMuch();
        } else {
            heap.keepLittle();
        }
    }

    private void collect() {
        long began = now();
        callCollector();
        collectedMs = now();
        tookMs = collectedMs - began;
        usedBytes = used();
    }

    // What there is of the JVM here; a test has one of its own.

    void callCollector() {
        System.gc();
    }

    long now() {
        return System.nanoTime() / 1_000_000;
    }

    long used() {
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }
}
