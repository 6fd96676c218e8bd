package fencepost.host;

import org.slf4j.LoggerFactory;

/** What the host itself has to say, about a plug-in or about a part of its own: under the name of that class. */
final class Log {
    private Log() {
    }

    static void warn(Class<?> plugin, String what) {
        LoggerFactory.getLogger(plugin).warn(what);
    }

    static void error(Class<?> plugin, String what, Throwable error) {
        LoggerFactory.getLogger(plugin).error(what, error);
    }
}
