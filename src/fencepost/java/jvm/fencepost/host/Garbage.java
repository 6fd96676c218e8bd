package fencepost.host;

/**
 * Frees what nothing uses any more, by the clock: Java itself looks for it only when its heap is full. What is free goes
 * back to the system. As for Python's in a slot, this takes one part in 200 of the time at most.
 */
final class Garbage extends Thread {
    private static final long EVERY_MS = 10_000;
    private static final long LARGEST_SHARE = 200;
    private static final long LEAST_BYTES = 4 << 20;

    Garbage() {
        super("garbage");
        setDaemon(true);
    }

    @Override
    public void run() {
        long pauseMs = EVERY_MS;
        long kept = 0;
        while (true) {
            try {
                Thread.sleep(pauseMs);
            } catch (InterruptedException error) {
                return;
            }
            if (used() < kept + LEAST_BYTES) {
                continue;
            }
            long began = System.nanoTime();
            System.gc();
            pauseMs = Math.max(EVERY_MS, (System.nanoTime() - began) / 1_000_000 * LARGEST_SHARE);
            kept = used();
        }
    }

    private static long used() {
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }
}
