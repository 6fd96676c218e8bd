package fencepost.host;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.LinkedHashMap;

/** Byte strings as Arrow has them: where each ends, the bytes of all, and a bit for each that is not null. */
final class Column {
    private int[] ends = new int[1024];
    private byte[] data = new byte[1 << 14];
    private byte[] present = new byte[128];
    private int rows;
    private int size;
    private int nulls;

    void clear() {
        rows = 0;
        size = 0;
        nulls = 0;
    }

    int rows() {
        return rows;
    }

    int size() {
        return size;
    }

    void add(byte[] value) {
        if (rows + 1 >= ends.length) {
            ends = Arrays.copyOf(ends, 2 * ends.length);
            present = Arrays.copyOf(present, 2 * present.length);
        }
        int bit = 1 << (rows & 7);
        if (value == null) {
            present[rows >> 3] &= (byte) ~bit;
            nulls++;
        } else {
            present[rows >> 3] |= (byte) bit;
            ensure(value.length);
            System.arraycopy(value, 0, data, size, value.length);
            size += value.length;
        }
        rows++;
        ends[rows] = size;
    }

    private void ensure(int more) {
        if (size + more > data.length) {
            data = Arrays.copyOf(data, Math.max(2 * data.length, Math.addExact(size, more)));
        }
    }

    /** Add the buffers of this column; none if all values are null. */
    void buffers(String name, LinkedHashMap<String, ByteBuffer> buffers) {
        if (nulls == rows) {
            return;
        }
        if (nulls > 0) {
            buffers.put(name + ".present", ByteBuffer.wrap(present, 0, (rows + 7) >> 3));
        }
        buffers.put(name + ".ends", bytes(ends, rows + 1));
        buffers.put(name + ".data", ByteBuffer.wrap(data, 0, size));
    }

    static ByteBuffer bytes(int[] numbers, int count) {
        ByteBuffer buffer = ByteBuffer.allocate(4 * count).order(ByteOrder.LITTLE_ENDIAN);
        buffer.asIntBuffer().put(numbers, 0, count);
        return buffer;
    }

    static ByteBuffer bytes(long[] numbers, int count) {
        ByteBuffer buffer = ByteBuffer.allocate(8 * count).order(ByteOrder.LITTLE_ENDIAN);
        buffer.asLongBuffer().put(numbers, 0, count);
        return buffer;
    }
}
