package fencepost.host;

import java.util.List;
import java.util.Map;

/** What a connection is for. Its calls come from one thread. */
interface Service {
    Answer call(Request request) throws Exception;

    /** Return what there is to say when it is opened. */
    default Map<String, Object> facts() throws Exception {
        return Map.of();
    }

    /** Return the metrics of its plug-ins, as PluginFigures has them. Any thread. */
    default List<Object> figures() {
        return List.of();
    }

    /** The connection has ended. */
    default void end() {
    }
}
