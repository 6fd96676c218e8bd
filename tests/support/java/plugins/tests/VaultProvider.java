package tests;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.config.ConfigData;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.connect.errors.RetriableException;

/** Has its own "token" under that key of any path; "away" and "wrong" are paths with which it has trouble. */
public final class VaultProvider implements ConfigProvider {
    private String token;

    @Override
    public void configure(Map<String, ?> properties) {
        token = (String) properties.get("token");
    }

    @Override
    public ConfigData get(String path) {
        return get(path, Set.of("token"));
    }

    @Override
    public ConfigData get(String path, Set<String> keys) {
        if (path.equals("away")) {
            throw new RetriableException("the vault is away");
        } else if (path.equals("wrong")) {
            throw new ConfigException("there is no path " + path);
        }
        Map<String, String> found = new HashMap<>();
        found.put("token", path + ":" + token);
        found.put("other", "not asked for");
        return new ConfigData(found, 5_000L);
    }

    @Override
    public void close() {
    }
}
