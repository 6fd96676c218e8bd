package tests;

import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Holds "mb" of memory from its start to its stop, and leaves 32 MB of garbage in each poll, of one record. */
public final class HoldingTask extends SourceTask {
    private static final int PIECE = 1 << 17;
    private static final int PIECES_OF_A_POLL = 32 << 3;

    private byte[][] held;
    private long count;

    @Override
    public String version() {
        return "1";
    }

    @Override
    public void start(Map<String, String> properties) {
        held = new byte[Integer.parseInt(properties.get("mb")) << 3][PIECE];
    }

    @Override
    public List<SourceRecord> poll() {
        for (int i = 0; i < PIECES_OF_A_POLL; i++) {
            byte[] piece = new byte[PIECE];
            piece[i] = 1;
            count += piece[i];
        }
        return List.of(new SourceRecord(Map.of("p", "p"), Map.of("n", count), "t", Schema.INT64_SCHEMA, count));
    }

    @Override
    public void stop() {
        held = null;
    }
}
