package fencepost.host;

/** A class cannot be used; the message says why. */
final class UnusablePluginException extends RuntimeException {
    private static final long serialVersionUID = 1;

    UnusablePluginException(String message, Throwable cause) {
        super(message, cause);
    }
}
