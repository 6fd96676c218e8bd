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

    boolean isEmpty() {
        return links.isEmpty();
    }

    /** Return the transformed record; null if it is filtered. */
    R apply(R record) {
        R changed = record;
        for (Link<R> link : links) {
            if (link.predicate == null || link.predicate.test(changed) != link.isNegated) {
                changed = link.transformation.apply(changed);
                if (changed == null) {
                    return null;
                }
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
    }
}
