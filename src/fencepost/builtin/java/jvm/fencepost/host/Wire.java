package fencepost.host;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A connection. A message has two lengths (4 bytes each, big-endian), JSON of the first length and bytes of the second.
 *
 * The bytes are buffers, each padded to 8 bytes; the JSON's "buffers" lists their names and lengths in order.
 */
final class Wire implements Closeable {
    /** Whole numbers of JSON are Long, as in Kafka Connect: an offset that was stored as an Integer comes back so. */
    static final ObjectMapper JSON = new ObjectMapper()
            .enable(DeserializationFeature.USE_LONG_FOR_INTS)
            .disable(SerializationFeature.FAIL_ON_EMPTY_BEANS);

    private static final int PIECE = 1 << 16;  // the JDK copies heap buffers into a direct one of the size it is given

    private static final ByteBuffer NOTHING = ByteBuffer.allocateDirect(0);

    private final SocketChannel channel;
    private final ByteBuffer lengths = ByteBuffer.allocate(8);
    private int mostKept = 4 << 20;
    private ByteBuffer kept = NOTHING;  // outside of the heap, to which the JDK would have to copy

    Wire(SocketChannel channel) {
        this.channel = channel;
    }

    static Wire to(Path path) throws IOException {
        SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX);
        channel.connect(UnixDomainSocketAddress.of(path));
        return new Wire(channel);
    }

    /** Return the next message; null if the other side has closed the connection. */
    Request read() throws IOException {
        return filled(lengths.clear()) ? read(ByteBuffer.allocate(lengths.getInt(4))) : null;
    }

    /** Do the same; the buffers of the message are valid until the next one is read in this way. */
    Request readOver() throws IOException {
        return filled(lengths.clear()) ? read(over(lengths.getInt(4))) : null;
    }

    private ByteBuffer over(int size) {
        if (size > mostKept) {
            return ByteBuffer.allocate(size);
        }
        if (size > kept.capacity()) {
            try {
                kept = ByteBuffer.allocateDirect((size + PIECE - 1) & -PIECE);
            } catch (OutOfMemoryError error) {  // outside of the heap; to ask again costs half a second
                mostKept = kept.capacity();
                Logs.error(Wire.class, "larger requests than " + mostKept + " bytes are read into the heap", error);
                return ByteBuffer.allocate(size);
            }
        }
        return kept.clear().limit(size);
    }

    @SuppressWarnings("unchecked")
    private Request read(ByteBuffer bytes) throws IOException {
        ByteBuffer json = ByteBuffer.allocate(lengths.getInt(0));
        if (!filled(json) || !filled(bytes)) {
            throw new EOFException("the connection ended in a message");
        }
        return new Request(JSON.readValue(json.array(), Map.class), bytes.flip());
    }

    private boolean filled(ByteBuffer buffer) throws IOException {
        int end = buffer.limit();
        while (buffer.position() < end) {
            buffer.limit(buffer.isDirect() ? end : Math.min(end, buffer.position() + PIECE));
            if (channel.read(buffer) < 0) {
                return false;
            }
        }
        return true;
    }

    void write(Answer answer) throws IOException {
        Map<String, Object> head = new LinkedHashMap<>(answer.head());
        List<List<Object>> sizes = new ArrayList<>();
        int total = 0;
        for (Map.Entry<String, ByteBuffer> each : answer.buffers().entrySet()) {
            sizes.add(List.of(each.getKey(), each.getValue().remaining()));
            total += padded(each.getValue().remaining());
        }
        if (total > 0) {
            head.put("buffers", sizes);
        }
        byte[] json = JSON.writeValueAsBytes(head);
        write(ByteBuffer.allocate(8 + json.length).putInt(json.length).putInt(total).put(json).flip());
        for (ByteBuffer each : answer.buffers().values()) {
            int padding = padded(each.remaining()) - each.remaining();
            write(each);
            write(ByteBuffer.allocate(padding));
        }
    }

    private void write(ByteBuffer buffer) throws IOException {
        int end = buffer.limit();
        while (buffer.position() < end) {
            buffer.limit(Math.min(end, buffer.position() + PIECE));
            channel.write(buffer);
        }
    }

    static int padded(int size) {
        return (size + 7) & ~7;
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
