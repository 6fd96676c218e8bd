package fencepost.host;

import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.connect.errors.RetriableException;

/** What a request is answered with: "result" or "error", and buffers by name. */
record Answer(Map<String, Object> head, Map<String, ByteBuffer> buffers) {
    static final Answer NOTHING = of(null);

    static Answer of(Object result) {
        Map<String, Object> head = new HashMap<>();
        head.put("result", result);
        return new Answer(head, Map.of());
    }

    static Answer of(Map<String, Object> result, LinkedHashMap<String, ByteBuffer> buffers) {
        return new Answer(Map.of("result", result), buffers);
    }

    /** Run what may be run again after any exception that is called retriable, whether Connect's or that of the clients. */
    static Answer repeatable(Callable<Answer> call) throws Exception {
        try {
            return call.call();
        } catch (RetriableException | org.apache.kafka.common.errors.RetriableException error) {
            return new Answer(Map.of("error", Thrown.retriable(error)), Map.of());
        }
    }

    static Answer thrown(Throwable error) {
        return new Answer(Map.of("error", Thrown.described(error)), Map.of());
    }
}
