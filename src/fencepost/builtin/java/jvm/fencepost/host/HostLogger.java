package fencepost.host;

import org.slf4j.helpers.MarkerIgnoringBase;

/** A logger of SLF4J's. What it logs goes to Python. */
final class HostLogger extends MarkerIgnoringBase {
    private static final long serialVersionUID = 1;

    HostLogger(String name) {
        this.name = name;
    }

    @Override
    public boolean isTraceEnabled() {
        return Logs.isEnabled(this, Logs.TRACE);
    }

    @Override
    public void trace(String message) {
        Logs.thrown(this, Logs.TRACE, message, null);
    }

    @Override
    public void trace(String format, Object argument) {
        Logs.log(this, Logs.TRACE, format, argument);
    }

    @Override
    public void trace(String format, Object first, Object second) {
        Logs.log(this, Logs.TRACE, format, first, second);
    }

    @Override
    public void trace(String format, Object... arguments) {
        Logs.log(this, Logs.TRACE, format, arguments);
    }

    @Override
    public void trace(String message, Throwable error) {
        Logs.thrown(this, Logs.TRACE, message, error);
    }

    @Override
    public boolean isDebugEnabled() {
        return Logs.isEnabled(this, Logs.DEBUG);
    }

    @Override
    public void debug(String message) {
        Logs.thrown(this, Logs.DEBUG, message, null);
    }

    @Override
    public void debug(String format, Object argument) {
        Logs.log(this, Logs.DEBUG, format, argument);
    }

    @Override
    public void debug(String format, Object first, Object second) {
        Logs.log(this, Logs.DEBUG, format, first, second);
    }

    @Override
    public void debug(String format, Object... arguments) {
        Logs.log(this, Logs.DEBUG, format, arguments);
    }

    @Override
    public void debug(String message, Throwable error) {
        Logs.thrown(this, Logs.DEBUG, message, error);
    }

    @Override
    public boolean isInfoEnabled() {
        return Logs.isEnabled(this, Logs.INFO);
    }

    @Override
    public void info(String message) {
        Logs.thrown(this, Logs.INFO, message, null);
    }

    @Override
    public void info(String format, Object argument) {
        Logs.log(this, Logs.INFO, format, argument);
    }

    @Override
    public void info(String format, Object first, Object second) {
        Logs.log(this, Logs.INFO, format, first, second);
    }

    @Override
    public void info(String format, Object... arguments) {
        Logs.log(this, Logs.INFO, format, arguments);
    }

    @Override
    public void info(String message, Throwable error) {
        Logs.thrown(this, Logs.INFO, message, error);
    }

    @Override
    public boolean isWarnEnabled() {
        return Logs.isEnabled(this, Logs.WARN);
    }

    @Override
    public void warn(String message) {
        Logs.thrown(this, Logs.WARN, message, null);
    }

    @Override
    public void warn(String format, Object argument) {
        Logs.log(this, Logs.WARN, format, argument);
    }

    @Override
    public void warn(String format, Object first, Object second) {
        Logs.log(this, Logs.WARN, format, first, second);
    }

    @Override
    public void warn(String format, Object... arguments) {
        Logs.log(this, Logs.WARN, format, arguments);
    }

    @Override
    public void warn(String message, Throwable error) {
        Logs.thrown(this, Logs.WARN, message, error);
    }

    @Override
    public boolean isErrorEnabled() {
        return Logs.isEnabled(this, Logs.ERROR);
    }

    @Override
    public void error(String message) {
        Logs.thrown(this, Logs.ERROR, message, null);
    }

    @Override
    public void error(String format, Object argument) {
        Logs.log(this, Logs.ERROR, format, argument);
    }

    @Override
    public void error(String format, Object first, Object second) {
        Logs.log(this, Logs.ERROR, format, first, second);
    }

    @Override
    public void error(String format, Object... arguments) {
        Logs.log(this, Logs.ERROR, format, arguments);
    }

    @Override
    public void error(String message, Throwable error) {
        Logs.thrown(this, Logs.ERROR, message, error);
    }
}
