package fencepost.host;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.connector.ConnectRecord;

/**
 * Transforms, predicates and converters in the chain of a Python connector.
 *
 * "run" sends records through some of them, each record through all before the next, as Kafka Connect does. It stops at
 * the first error, which Python judges: "again" goes on with the step that failed, "skip" with the next record.
 */
final class ChainService implements Service {
    private final Records form = new Records();
    private final List<Step> steps = new ArrayList<>();
    private final Plugins plugins;
    private final boolean isSource;
    private List<ConnectRecord<?>> records = List.of();
    private boolean[] isChosen = {};
    private int first;
    private int end;
    private int row;
    private int step;
    private ConnectRecord<?> current;
    private final List<ConnectRecord<?>> kept = new ArrayList<>();
    private final List<Integer> rows = new ArrayList<>();

    ChainService(Request request, Loaders loaders) throws Exception {
        Logs.setOwner(request.text("owner"), request);
        isSource = request.flag("is_source");
        plugins = new Plugins(request.properties("config"), Map.of(), null, loaders);
        try {
            for (Object each : request.list("steps")) {
                steps.add(Step.of((Map<?, ?>) each, plugins, isSource));
            }
        } catch (Throwable error) {
            end();
            throw error;
        }
    }

    @Override
    public Answer call(Request request) throws Exception {
        switch (request.operation()) {
            case "run" -> begin(request);
            case "again" -> { }
            case "skip" -> skip();
            default -> throw new IllegalArgumentException("no such operation: " + request.operation());
        }
        return proceed();
    }

    private void begin(Request request) {
        kept.clear();
        rows.clear();
        current = null;
        records = form.read(request, isSource);
        isChosen = new boolean[records.size()];
        ByteBuffer chosen = request.buffer("chosen");
        for (int i = 0; i < isChosen.length; i++) {
            isChosen[i] = chosen == null || chosen.get(i) != 0;
        }
        first = (int) request.number("first", 0);
        end = (int) request.number("end", steps.size());
        row = 0;
        step = first;
    }

    private void skip() {
        if (row < records.size()) {
            nextRow();
        } else {  // it cannot be written, and is the first that cannot
            int bad = unwritable();
            kept.remove(bad);
            rows.remove(bad);
        }
    }

    private void nextRow() {
        row++;
        step = first;
        current = null;
    }

    private Answer proceed() {
        while (row < records.size()) {
            current = current == null ? records.get(row) : current;
            while (current != null && step < end) {
                try {
                    current = steps.get(step).apply(current, isChosen, row);
                } catch (Exception error) {
                    return failed(row, step, error);
                }
                step++;
            }
            if (current != null) {
                kept.add(current);
                rows.add(row);
            }
            nextRow();
        }
        try {
            return written();
        } catch (RuntimeException error) {
            int bad = unwritable();
            return failed(rows.get(bad), end - 1, error);
        }
    }

    private Answer written() {
        LinkedHashMap<String, ByteBuffer> buffers = form.write(kept);
        byte[] chosen = new byte[rows.size()];
        for (int i = 0; i < chosen.length; i++) {
            chosen[i] = (byte) (isChosen[rows.get(i)] ? 1 : 0);
        }
        buffers.put("chosen", ByteBuffer.wrap(chosen));
        return Answer.of(Map.of("rows", rows), buffers);
    }

    /** Return the index of the first result that has no form. */
    private int unwritable() {
        for (int i = 0; i < kept.size(); i++) {
            try {
                form.write(List.of(kept.get(i)));
            } catch (RuntimeException error) {
                return i;
            }
        }
        throw new IllegalStateException("the records can be written one by one, but not together");
    }

    private static Answer failed(int row, int step, Exception error) {
        return Answer.of(Map.of("failed", List.of(row, step, Thrown.ofStep(error))));
    }

    @Override
    public void end() {
        plugins.close();
    }
}
