package fencepost.host;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** The transforms of a connector, in order, each with its predicate. */
final class Chain<R extends ConnectRecord<R>> implements AutoCloseable {
    private final List<Link<R>> links = new ArrayList<>();
    private final Plugins plugins;

    Chain(Plugins plugins) throws Exception {
        this.plugins = plugins;
        for (String alias : plugins.list("transforms")) {
            links.add(link("transforms." + alias + "."));
        }
    }

    @SuppressWarnings("unchecked")
    private Link<R> link(String prefix) throws Exception {
        Map<String, Object> config = plugins.under(prefix);
        Object predicate = config.remove("predicate");
        boolean isNegated = Boolean.parseBoolean(String.valueOf(config.remove("negate")));
        JavaClass described = plugins.named(prefix + "type");
        Transformation<R> transformation = plugins.configured(described, Transformation.class, config);
        if (predicate == null) {
            return new Link<>(described, transformation, null, null, false);
        }
        String itsPrefix = "predicates." + predicate + ".";
        JavaClass itsClass = plugins.named(itsPrefix + "type");
        Predicate<R> made = plugins.configured(itsClass, Predicate.class, plugins.under(itsPrefix));
        return new Link<>(described, transformation, itsClass, made, isNegated);
    }

    /**
     * Return the transformed record; null if it is filtered, or failed and that is tolerated. Each transform is retried
     * by itself, as in Kafka Connect: one before it may remember what it has seen.
     */
    R apply(R record, Tolerance tolerance, int row) throws InterruptedException {
        R changed = record;
        for (Link<R> link : links) {
            R current = changed;
            changed = tolerance.run("TRANSFORMATION", row, () -> link.apply(current));
            if (changed == null) {
                return null;
            }
        }
        return changed;
    }

    @Override
    public void close() {
        for (Link<R> link : links) {
            plugins.closed(link.described, link.transformation);
            plugins.closed(link.itsClass, link.predicate);
        }
    }

    private record Link<R extends ConnectRecord<R>>(
            JavaClass described,
            Transformation<R> transformation,
            JavaClass itsClass,
            Predicate<R> predicate,
            boolean isNegated) {
        R apply(R record) {
            boolean applies = predicate == null || predicate.test(record) != isNegated;
            return applies ? transformation.apply(record) : record;
        }
    }
}
