package fencepost.host;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** What a connector's config names: its transforms, predicates and converters. */
final class Plugins implements AutoCloseable {
    private static final String VERSION = "plugin.version";

    final Map<String, String> config;
    private final Map<String, JavaClass> classes;
    private final JavaClass own;
    private final Loaders loaders;
    private final List<Made> made = new ArrayList<>();
    final PluginFigures figures = new PluginFigures();

    /** "own" is a class of the connector's plug-in, in which names are looked up that "classes" does not have. */
    Plugins(Map<String, String> config, Map<String, JavaClass> classes, JavaClass own, Loaders loaders) {
        this.config = config;
        this.classes = classes;
        this.own = own;
        this.loaders = loaders;
    }

    JavaClass named(String key) {
        String name = config.get(key);
        if (name == null) {
            throw new UnusablePluginException(key + " is missing", null);
        }
        JavaClass found = classes.get(name.trim());
        return found == null ? own.sibling(name.trim()) : found;
    }

    List<String> list(String key) {
        List<String> found = new ArrayList<>();
        for (String each : config.getOrDefault(key, "").split(",")) {
            if (!each.isBlank()) {
                found.add(each.trim());
            }
        }
        return found;
    }

    /** Return the properties that start with "prefix", without it. */
    Map<String, Object> under(String prefix) {
        Map<String, Object> found = new HashMap<>();
        config.forEach((key, value) -> {
            if (key.startsWith(prefix)) {
                found.put(key.substring(prefix.length()), value);
            }
        });
        found.remove(VERSION);
        return found;
    }

    <T extends Configurable> T configured(JavaClass described, Class<T> kind, Map<String, Object> properties)
            throws Exception {
        T made = made(described, kind);
        return loaders.swapped(described, () -> {
            made.configure(properties);
            measure(made, kind);
            return made;
        });
    }

    /** Let a plug-in that wants to register metrics (KIP-877). */
    private void measure(Object plugin, Class<?> kind) {
        if (plugin instanceof Monitorable monitorable) {
            String tag = kind.getSimpleName().toLowerCase(Locale.ROOT);
            monitorable.withPluginMetrics(figures.of(Map.of(tag, plugin.getClass().getName())));
        }
    }

    private <T> T made(JavaClass described, Class<T> kind) throws Exception {
        T instance = loaders.instance(described, kind);
        if (instance instanceof AutoCloseable closeable) {
            made.add(new Made(described, closeable));
        }
        return instance;
    }

    Converter converter(JavaClass described, Map<String, Object> properties, boolean isKey) throws Exception {
        Converter made = made(described, Converter.class);
        return loaders.swapped(described, () -> {
            made.configure(properties, isKey);
            measure(made, Converter.class);
            return made;
        });
    }

    HeaderConverter headerConverter(JavaClass described, Map<String, Object> properties) throws Exception {
        properties.put("converter.type", "header");
        return configured(described, HeaderConverter.class, properties);
    }

    <T> T swapped(JavaClass described, Callable<T> call) throws Exception {
        return loaders.swapped(described, call);
    }

    /** Close all that were made, also one that could not be configured; what they throw is logged. */
    @Override
    public void close() {
        for (Made each : made) {
            try {
                loaders.swapped(each.described, () -> {
                    each.plugin.close();
                    return null;
                });
            } catch (Throwable error) {
                Logs.error(each.plugin.getClass(), "close() failed", error);
            }
        }
        made.clear();
    }

    private record Made(JavaClass described, AutoCloseable plugin) {
    }
}
