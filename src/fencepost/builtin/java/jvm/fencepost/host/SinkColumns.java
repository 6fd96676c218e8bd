package fencepost.host;

import java.nio.ByteBuffer;
import java.util.List;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/** The raw records of a request, row by row. Rows are read in order. */
final class SinkColumns {
    final int rows;
    private final ByteBuffer offsets;
    private final ByteBuffer timestamps;
    private final ByteBuffer appended;
    private final Bytes keys;
    private final Bytes values;
    private final Bytes headers;
    private final ByteBuffer headerCounts;
    private final List<?> headerNames;
    private int nextHeader;

    /** The rows as they were read, if anything in a request differs from that. */
    static SinkColumns asRead(Request request) {
        return request.buffer("read.offsets") == null ? null : new SinkColumns(request, "read.");
    }

    SinkColumns(Request request) {
        this(request, "");
    }

    private SinkColumns(Request request, String prefix) {
        rows = (int) request.number("rows", 0);
        offsets = request.buffer(prefix + "offsets");
        timestamps = request.buffer(prefix + "timestamps");
        appended = request.buffer(prefix + "appended");
        keys = new Bytes(request, prefix + "keys");
        values = new Bytes(request, prefix + "values");
        headers = new Bytes(request, prefix + "headers");
        headerCounts = request.buffer(prefix + "header_counts");
        headerNames = request.list(prefix + "header_names");
    }

    long offset(int row) {
        return offsets.getLong(8 * row);
    }

    /** Return the timestamp; null if there is none. */
    Long timestamp(int row) {
        long found = timestamps.getLong(8 * row);
        return found == SourceColumns.NO_TIMESTAMP ? null : Long.valueOf(found);
    }

    /** Say who has set the timestamp; without the buffer "appended" it was never the broker. */
    TimestampType timestampType(int row) {
        if (timestamp(row) == null) {
            return TimestampType.NO_TIMESTAMP_TYPE;
        }
        boolean isAppended = appended != null && appended.get(row) != 0;
        return isAppended ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
    }

    byte[] key(int row) {
        return keys.get(row);
    }

    byte[] value(int row) {
        return values.get(row);
    }

    /** Return the headers of the next row: this is called once for each. */
    RecordHeaders headers(int row) {
        RecordHeaders found = new RecordHeaders();
        int end = headerCounts == null ? nextHeader : nextHeader + headerCounts.getInt(4 * row);
        while (nextHeader < end) {
            found.add((String) headerNames.get(nextHeader), headers.get(nextHeader));
            nextHeader++;
        }
        return found;
    }

    /** Byte strings as Arrow has them. */
    private static final class Bytes {
        private final ByteBuffer ends;
        private final ByteBuffer data;
        private final ByteBuffer present;

        Bytes(Request request, String name) {
            ends = request.buffer(name + ".ends");
            data = request.buffer(name + ".data");
            present = request.buffer(name + ".present");
        }

        byte[] get(int row) {
            if (ends == null || present != null && (present.get(row >> 3) >> (row & 7) & 1) == 0) {
                return null;
            }
            int start = ends.getInt(4 * row);
            byte[] found = new byte[ends.getInt(4 * row + 4) - start];
            data.get(start, found);
            return found;
        }
    }
}
