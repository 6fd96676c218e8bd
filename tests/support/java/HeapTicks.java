package fencepost.host;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * How the host's heap is sized, in a JVM that is made up: each line is a stretch of time, of settings such as
 * "ticks=5 busy=10". The answer has, for each tick, how many full collections there were, and S or L for a small or a
 * large heap.
 *
 * "ours" as its argument asks whether this JVM's heap is the host's to size; numbers, in MB, how much of a heap is free
 * with so much in use.
 */
final class HeapTicks {
    private long nowMs;
    private long collections;
    private long usedMb;
    private int full;
    private boolean isLarge;
    private Map<String, Integer> stretch = Map.of();

    private final Garbage garbage = new Garbage() {
        @Override
        void callCollector() {
            full++;
            collections++;
            nowMs += of("takes_ms");
        }

        @Override
        long now() {
            return nowMs;
        }

        @Override
        long used() {
            return usedMb << 20;
        }
    };

    private HeapTicks() {
        garbage.heap = new FreeHeap() {
            @Override
            void keepLittle() {
                isLarge = false;
            }

            @Override
            void keepMuch() {
                isLarge = true;
            }

            @Override
            boolean isTooLarge() {
                return of("too_large") == 1;
            }

            @Override
            long collections() {
                return collections;
            }
        };
    }

    private int of(String setting) {
        return stretch.getOrDefault(setting, 0);
    }

    /** Tick with so many collections of Java's own in each, "busy" of a small heap and "large_busy" of a large one. */
    private String ticked(String line) {
        stretch = new HashMap<>();
        for (String each : line.split(" ")) {
            stretch.put(each.split("=")[0], Integer.valueOf(each.split("=")[1]));
        }
        StringBuilder found = new StringBuilder();
        for (int i = 0; i < of("ticks"); i++) {
            nowMs += 2_000;
            collections += isLarge ? of("large_busy") : of("busy");
            usedMb += of("new_mb");
            full = 0;
            garbage.tick();
            found.append(full).append(isLarge ? "L" : "S").append(' ');
        }
        return found.toString().trim();
    }

    public static void main(String[] arguments) throws Exception {
        if (List.of(arguments).equals(List.of("ours"))) {
            System.out.println(FreeHeap.ours() != null);
        } else if (arguments.length > 0) {
            Arrays.stream(arguments).forEach(each -> System.out.println(FreeHeap.leastFree(Long.parseLong(each) << 20)));
        } else {
            HeapTicks ticks = new HeapTicks();
            new BufferedReader(new InputStreamReader(System.in)).lines().forEach(each -> System.out.println(ticks.ticked(each)));
        }
    }
}
