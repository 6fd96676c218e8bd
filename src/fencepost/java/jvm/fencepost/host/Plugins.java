package fencepost.host;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** What a connector's config names: its transforms, predicates and converters. */
final class Plugins {
    private static final String VERSION = "plugin.version";

    final Map<String, String> config;
    private final Map<String, JavaClass> classes;
    private final JavaClass own;
    private final Loaders loaders;

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
        T made = loaders.instance(described, kind);
        return loaders.swapped(described, () -> {
            made.configure(properties);
            return made;
        });
    }

    Converter converter(String key) throws Exception {
        JavaClass described = named(key);
        Converter made = loaders.instance(described, Converter.class);
        return loaders.swapped(described, () -> {
            made.configure(under(key + "."), key.startsWith("key"));
            return made;
        });
    }

    HeaderConverter headerConverter() throws Exception {
        Map<String, Object> properties = under("header.converter.");
        properties.put("converter.type", "header");
        return configured(named("header.converter"), HeaderConverter.class, properties);
    }

    /** Close a plug-in; what it throws is printed. */
    void closed(JavaClass described, AutoCloseable plugin) {
        if (plugin == null) {
            return;
        }
        try {
            loaders.swapped(described, () -> {
                plugin.close();
                return null;
            });
        } catch (Throwable error) {
            Log.error(plugin.getClass(), "close() failed", error);
        }
    }
}
