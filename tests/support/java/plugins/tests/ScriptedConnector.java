package tests;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.ConnectorTransactionBoundaries;
import org.apache.kafka.connect.source.ExactlyOnceSupport;
import org.apache.kafka.connect.source.SourceConnector;

/**
 * Plans as many tasks as it may, and does what its config says: "asks", "raises", "refuses", "support". "hangs" is one of
 * the ways of Hang in which its validation does not return; with "once", a file, only the first one, which makes the file.
 */
public final class ScriptedConnector extends SourceConnector {
    private Map<String, String> properties = Map.of();

    @Override
    public String version() {
        return "1.2.3";
    }

    @Override
    public Class<? extends Task> taskClass() {
        return ScriptedTask.class;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
                .define("polls", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "What is polled.")
                .define("password", ConfigDef.Type.PASSWORD, null, ConfigDef.Importance.LOW, "A secret.");
    }

    @Override
    public Config validate(Map<String, String> config) {
        if (config.containsKey("hangs")) {
            hang(config);
        }
        List<ConfigValue> values = super.validate(config).configValues();
        for (ConfigValue value : values) {
            if (value.name().equals("polls")) {
                value.addErrorMessage("seen by " + Thread.currentThread().getContextClassLoader());
            }
        }
        return new Config(values);
    }

    private static void hang(Map<String, String> config) {
        String once = config.get("once");
        if (once != null && Files.exists(Path.of(once))) {
            return;
        }
        try {
            Hang.in(config.get("hangs"), () -> {
                if (once != null) {
                    Diary.append(Path.of(once), "hangs");
                }
            });
        } catch (InterruptedException error) {
            throw new ConnectException(error);
        }
    }

    @Override
    public void start(Map<String, String> given) {
        properties = given;
        if (given.containsKey("fails")) {
            throw new ConnectException("cannot start: " + given.get("fails"));
        }
        if (given.containsKey("asks")) {
            new Thread(() -> context().requestTaskReconfiguration()).start();
        }
        if (given.containsKey("raises")) {
            new Thread(() -> context().raiseError(new ConnectException(given.get("raises")))).start();
        }
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        List<Map<String, String>> found = new ArrayList<>();
        for (int i = 0; i < most; i++) {
            Map<String, String> config = new HashMap<>(properties);
            config.put("number", String.valueOf(i));
            config.put("offset", String.valueOf(context().offsetStorageReader().offset(Map.of("p", "p"))));
            found.add(config);
        }
        return found;
    }

    @Override
    public ExactlyOnceSupport exactlyOnceSupport(Map<String, String> config) {
        return config.containsKey("support") ? ExactlyOnceSupport.valueOf(config.get("support")) : null;
    }

    @Override
    public ConnectorTransactionBoundaries canDefineTransactionBoundaries(Map<String, String> config) {
        return config.containsKey("support")
                ? ConnectorTransactionBoundaries.SUPPORTED : ConnectorTransactionBoundaries.UNSUPPORTED;
    }

    @Override
    public boolean alterOffsets(Map<String, String> config, Map<Map<String, ?>, Map<String, ?>> offsets) {
        if (config.containsKey("refuses")) {
            throw new ConnectException("no such place: " + offsets);
        }
        return !offsets.isEmpty();
    }

    @Override
    public void stop() {
        properties = Map.of();
    }
}
