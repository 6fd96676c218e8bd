package fencepost.host;

import com.sun.management.HotSpotDiagnosticMXBean;
import com.sun.management.VMOption;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;

/**
 * The part of the heap that is free after a full collection, which decides how large Java makes it.
 *
 * Java gives new objects a third of the heap. If that is small, it is collected often, and what is still in use is copied
 * each time.
 */
final class FreeHeap {
    private static final String LEAST = "MinHeapFreeRatio";
    private static final String MOST = "MaxHeapFreeRatio";

    private final List<GarbageCollectorMXBean> collectors = ManagementFactory.getGarbageCollectorMXBeans();
    private final HotSpotDiagnosticMXBean options = ManagementFactory.getPlatformMXBean(HotSpotDiagnosticMXBean.class);

    /** Return the heap if its size is left to the host; null if a user or another kind of Java decides. */
    static FreeHeap ours() {
        try {
            FreeHeap found = new FreeHeap();
            return found.isDefault(LEAST) && found.isDefault(MOST) ? found : null;
        } catch (LinkageError | RuntimeException error) {  // this Java has no such options
            return null;
        }
    }

    private boolean isDefault(String option) {
        return options.getVMOption(option).getOrigin() == VMOption.Origin.DEFAULT;
    }

    /** From the next full collection on, leave this many percent of the heap free. */
    void keepFree(int least, int most) {
        options.setVMOption(MOST, "100");  // so that it is never below the least
        options.setVMOption(LEAST, String.valueOf(least));
        options.setVMOption(MOST, String.valueOf(most));
    }

    /** Return how many collections there have been. */
    long collections() {
        return collectors.stream().mapToLong(each -> Math.max(each.getCollectionCount(), 0)).sum();
    }
}
