package fencepost.host;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Values that repeat: each distinct one once, and which of them is in how many rows in succession. */
final class Runs<T> {
    private final Map<T, Integer> numbers = new HashMap<>();
    private final List<T> distinct = new ArrayList<>();
    private int[] values = new int[16];
    private int[] counts = new int[16];
    private int size;
    private T last;

    void clear() {
        numbers.clear();
        distinct.clear();
        size = 0;
        last = null;
    }

    /** Add a row, and say whether its value is a new one. The same object as in the row before is not compared. */
    boolean add(T value) {
        if (size > 0 && (value == last || value.equals(last))) {
            counts[size - 1]++;
            return false;
        }
        if (size == values.length) {
            values = Arrays.copyOf(values, 2 * size);
            counts = Arrays.copyOf(counts, 2 * size);
        }
        int known = distinct.size();
        values[size] = numbers.computeIfAbsent(value, ignored -> {
            distinct.add(value);
            return distinct.size() - 1;
        });
        counts[size++] = 1;
        last = value;
        return distinct.size() > known;
    }

    T last() {
        return last;
    }

    List<T> distinct() {
        return distinct;
    }

    /** Return the distinct values, the number of each run's value, and the runs' lengths. */
    List<Object> described() {
        return List.of(List.copyOf(distinct), Arrays.copyOf(values, size), Arrays.copyOf(counts, size));
    }

    /** Return the number of each run's value, and the runs' lengths. */
    List<Object> numbered() {
        return List.of(Arrays.copyOf(values, size), Arrays.copyOf(counts, size));
    }
}
