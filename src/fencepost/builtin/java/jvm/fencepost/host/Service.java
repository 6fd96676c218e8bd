package fencepost.host;

import java.util.List;

/** What a connection is for. Its calls come from one thread. */
interface Service {
    Answer call(Request request) throws Exception;

    /** Return the metrics of its plug-ins, as PluginFigures has them. Any thread. */
    default List<Object> figures() {
        return List.of();
    }

    /** The connection has ended. */
    default void end() {
    }
}
