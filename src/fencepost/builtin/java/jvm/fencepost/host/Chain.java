package fencepost.host;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** The transforms of a connector, in order, each with its predicate. */
final class Chain<R extends ConnectRecord<R>> {
    private final List<Link<R>> links = new ArrayList<>();

    Chain(Plugins plugins) throws Exception {
        for (String alias : plugins.list("transforms")) {
            links.add(link(plugins, "transforms." + alias + "."));
        }
    }

    @SuppressWarnings("unchecked")
    private static <R extends ConnectRecord<R>> Link<R> link(Plugins plugins, String prefix) throws Exception {
        Map<String, Object> config = plugins.under(prefix);
        Object predicate = config.remove("predicate");
        boolean isNegated = Boolean.parseBoolean(String.valueOf(config.remove("negate")));
        Transformation<R> transformation = plugins.configured(plugins.named(prefix + "type"), Transformation.class, config);
        if (predicate == null) {
            return new Link<>(transformation, null, false);
        }
        String itsPrefix = "predicates." + predicate + ".";
        Predicate<R> made = plugins.configured(plugins.named(itsPrefix + "type"), Predicate.class, plugins.under(itsPrefix));
        return new Link<>(transformation, made, isNegated);
    }

    /**
     * Return the transformed record; null if it is filtered, or failed and that is tolerated. Each transform is retried
     * by itself, as in Kafka Connect: one before it may remember what it has seen.
     */
    R apply(R record, Tolerance tolerance, int row) throws InterruptedException {
        R changed = record;
        for (Link<R> link : links) {
            R current = changed;
            changed = tolerance.run("TRANSFORMATION", link.transformation, row, () -> link.apply(current));
            if (changed == null) {
                return null;
            }
        }
        return changed;
    }

    private record Link<R extends ConnectRecord<R>>(
            Transformation<R> transformation, Predicate<R> predicate, boolean isNegated) {
        R apply(R record) {
            boolean applies = predicate == null || predicate.test(record) != isNegated;
            return applies ? transformation.apply(record) : record;
        }
    }
}
