package fencepost.host;

import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.connect.components.ConnectPlugin;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.source.SourceTask;

/** Questions about classes, each of which is answered by a new instance. */
final class Questions implements Service {
    private final Loaders loaders;

    Questions(Loaders loaders) {
        this.loaders = loaders;
    }

    @Override
    public Answer call(Request request) throws Exception {
        JavaClass described = request.javaClass("class");
        Object plugin = loaders.instance(described, Object.class);
        return loaders.swapped(described, () -> switch (request.operation()) {
            case "describe" -> Answer.of(description(plugin));
            case "definitions" -> Answer.of(definitions(plugin));
            case "look_up" -> Answer.repeatable(() -> lookUp((ConfigProvider) plugin, request));
            case "validate" -> Answer.of(validated(described.name(), plugin, request.properties("properties")));
            default -> throw new IllegalArgumentException("no such operation: " + request.operation());
        });
    }

    private static Map<String, Object> description(Object plugin) {
        Map<String, Object> found = new HashMap<>(Map.of("version", version(plugin)));
        found.put("callbacks", plugin instanceof SourceTask task ? Callbacks.of(task).described() : null);
        return found;
    }

    private static Answer lookUp(ConfigProvider provider, Request request) throws Exception {
        Set<String> keys = new LinkedHashSet<>();
        request.list("keys").forEach(each -> keys.add((String) each));
        try (provider) {
            provider.configure(request.properties("properties"));
            ConfigData found = provider.get(request.text("path"), keys);
            Map<String, String> values = new HashMap<>(found.data());
            values.keySet().retainAll(keys);  // some return all that they have at the path
            values.values().removeIf(Objects::isNull);
            Map<String, Object> answer = new HashMap<>();
            answer.put("values", values);
            answer.put("ttl_ms", found.ttl());
            return Answer.of(answer);
        }
    }

    static String version(Object plugin) {
        String version = plugin instanceof Versioned versioned ? versioned.version() : null;
        return version == null ? "undefined" : version;
    }

    private static List<Object> definitions(Object plugin) {
        return configDef(plugin).configKeys().values().stream().<Object>map(AbstractHerder::convertConfigKey).toList();
    }

    private static Object validated(String name, Object plugin, Map<String, String> properties) {
        ConfigDef definitions = configDef(plugin);
        Config config = plugin instanceof Connector connector ? connector.validate(properties)
                : new Config(definitions.validate(properties));
        if (config == null) {
            throw new IllegalStateException(name + ".validate() must return a Config that is not null.");
        }
        return AbstractHerder.generateResult(
                name, definitions.configKeys(), config.configValues(), definitions.groups());
    }

    private static ConfigDef configDef(Object plugin) {
        ConfigDef found = plugin instanceof ConnectPlugin configurable ? configurable.config()
                : plugin instanceof Connector connector ? connector.config() : new ConfigDef();
        if (found == null) {
            throw new IllegalStateException(plugin.getClass().getName() + ".config() must return a ConfigDef that is not null.");
        }
        return found;
    }
}
