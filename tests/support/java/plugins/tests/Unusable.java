package tests;

import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/** Classes of which no instance can be made. */
public abstract class Unusable extends SourceTask {
    @Override
    public String version() {
        return "0";
    }

    @Override
    public void start(Map<String, String> properties) {
    }

    @Override
    public List<SourceRecord> poll() {
        return null;
    }

    @Override
    public void stop() {
    }

    /** Wants an argument. */
    public static final class WithArgument extends Unusable {
        public WithArgument(String argument) {
            super();
        }
    }

    /** Throws when it is made. */
    public static final class Throwing extends Unusable {
        public Throwing() {
            throw new ConnectException("this is not to be made");
        }
    }

    /** Throws when it is loaded. */
    public static final class Broken extends Unusable {
        static final int NUMBER = Integer.parseInt("none");
    }

    /** Is private. */
    private static final class Hidden extends Unusable {
    }
}
