package fencepost.host;

import com.sun.management.HotSpotDiagnosticMXBean;
import com.sun.management.VMOption;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.util.List;

/**
 * The part of the heap that is free after a full collection, which decides how large Java makes it.
 *
 * Java gives new objects a third of the heap. If that is small, it is collected often, and what is still in use is copied
 * each time.
 */
class FreeHeap {
    private static final String LEAST = "MinHeapFreeRatio";
    private static final String MOST = "MaxHeapFreeRatio";
    private static final int OUR_LEAST = 20;  // as in the module "embedded.java" of Python
    private static final int OUR_MOST = 40;
    private static final int LARGEST_LEAST = 85;
    private static final int BETWEEN = 5;
    private static final long FREE_BYTES = 300 << 20;

    private final List<GarbageCollectorMXBean> collectors = ManagementFactory.getGarbageCollectorMXBeans();
    private final HotSpotDiagnosticMXBean options = ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);
    private final MemoryPoolMXBean old = ManagementFactory.getMemoryPoolMXBeans().stream()
            .filter(each -> each.getType() == MemoryType.HEAP && each.isUsageThresholdSupported()).findFirst().orElseThrow();

    /**
     * Return the heap if its size is left to the host; null if a user, another collector or another kind of Java decides.
     *
     * Without full collections at will, a heap that has become large would stay so.
     */
    static FreeHeap ours() {
        try {
            FreeHeap found = new FreeHeap();
            boolean isOurs = found.isAt(LEAST, OUR_LEAST) && found.isAt(MOST, OUR_MOST)
                    && found.isOn("UseSerialGC") && !found.isOn("DisableExplicitGC")
                    && found.options.getVMOption("MaxNewSize").getOrigin() != VMOption.Origin.VM_CREATION;
            return isOurs ? found : null;
        } catch (LinkageError | RuntimeException error) {  // this Java has no such options
            return null;
        }
    }

    private boolean isAt(String option, int value) {
        VMOption found = options.getVMOption(option);
        return found.isWriteable() && found.getValue().equals(String.valueOf(value));
    }

    private boolean isOn(String option) {
        return Boolean.parseBoolean(options.getVMOption(option).getValue());
    }

    /** From the next full collection on, leave as much free as a host at rest needs. */
    void keepLittle() {
        set(OUR_LEAST, OUR_MOST);
    }

    /** Leave about 300 MB free, or most of the heap if little is used of it. */
    void keepMuch() {
        int least = leastFree(liveBytes());
        set(least, Math.max(OUR_MOST, least + BETWEEN));
    }

    static int leastFree(long liveBytes) {
        return (int) Math.max(OUR_LEAST, Math.min(LARGEST_LEAST, 100 * FREE_BYTES / (FREE_BYTES + liveBytes)));
    }

    /** Say whether far more is free than should be: more is in use than when this was last decided. */
    boolean isTooLarge() {
        long least = Math.max(liveBytes() * 100 / (100 - OUR_MOST), old.getUsage().getInit());  // Java makes it no smaller
        return old.getUsage().getCommitted() - least > 2 * FREE_BYTES;
    }

    /** Return what was in use after the last full collection. */
    private long liveBytes() {
        return old.getCollectionUsage().getUsed();
    }

    private void set(int least, int most) {
        options.setVMOption(MOST, "100");  // so that it is never below the least
        options.setVMOption(LEAST, String.valueOf(least));
        options.setVMOption(MOST, String.valueOf(most));
    }

    /** Return how many collections there have been. */
    long collections() {
        return collectors.stream().mapToLong(each -> Math.max(each.getCollectionCount(), 0)).sum();
    }
}
