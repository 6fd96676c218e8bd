package fencepost.host;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.connect.errors.RetriableException;

/**
 * An exception as it is sent. Only where it is thrown can be known whether the same call may be made again, so "retriable" is
 * what its catcher says. Of the kinds that Kafka's clients throw, Kafka Connect repeats a poll alone: any other call may
 * have done a part of its work.
 */
final class Thrown {
    private static final int MOST = 32_768;  // a StackOverflowError has a thousand lines

    private Thrown() {
    }

    static Map<String, Object> described(Throwable error) {
        return described(error, error instanceof UnusablePluginException ? "plugin" : "thrown");
    }

    /** Do the same for what a put, transform or converter throws, which may say by it that it can be called again. */
    static Map<String, Object> ofStep(Throwable error) {
        return error instanceof RetriableException ? retriable(error) : described(error);
    }

    static Map<String, Object> retriable(Throwable error) {
        return described(error, "retriable");
    }

    private static Map<String, Object> described(Throwable error, String kind) {
        Throwable root = root(error);
        Map<String, Object> found = new HashMap<>();
        found.put("class", error.getClass().getName());
        found.put("message", message(error));
        found.put("root_class", root.getClass().getName());
        found.put("root_message", message(root));
        found.put("trace", trace(error));
        found.put("kind", kind);
        return found;
    }

    /** Return a text without halves of characters, which cannot be written as JSON. */
    static String whole(String text) {
        return text == null ? null : new String(text.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
    }

    private static Throwable root(Throwable error) {
        Throwable root = error;
        for (int depth = 0; cause(root) != null && depth < 100; depth++) {  // a cause may be in a circle
            root = cause(root);
        }
        return root;
    }

    // An exception's own methods may throw as well.

    private static Throwable cause(Throwable error) {
        try {
            return error.getCause();
        } catch (Throwable broken) {
            return null;
        }
    }

    static String message(Throwable error) {
        try {
            return whole(error.getMessage());
        } catch (Throwable broken) {
            return "(its getMessage() has thrown " + broken.getClass().getName() + ")";
        }
    }

    static String trace(Throwable error) {
        StringWriter text = new StringWriter();
        try {
            error.printStackTrace(new PrintWriter(text, true));
        } catch (Throwable broken) {
            text.append(error.getClass().getName()).append(" (it cannot be printed)");
        }
        StringBuffer found = text.getBuffer();
        return whole(found.length() <= MOST ? found.toString() : found.substring(0, MOST) + "...");
    }
}
