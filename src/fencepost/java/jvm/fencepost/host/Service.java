package fencepost.host;

/** What a connection is for. Its calls come from one thread. */
interface Service {
    Answer call(Request request) throws Exception;

    /** The connection has ended. */
    default void end() {
    }
}
