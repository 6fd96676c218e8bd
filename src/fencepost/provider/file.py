"""Values of a properties file: `${file:/run/secrets.properties:password}`."""

from collections.abc import Set

from fencepost.api import ConfigData, ConfigError, ConfigProvider
from fencepost.config.properties import read_properties
from fencepost.provider.allowed import AllowedPaths


class FileConfigProvider(AllowedPaths, ConfigProvider):
    """The path is a properties file, and the key is one of its keys."""

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        file = self.allowed(path)
        try:
            found = read_properties(file)
        except ConfigError as error:
            why = error.__cause__.strerror if isinstance(error.__cause__, OSError) else "it is not a properties file"
            raise ConfigError(f"{path} cannot be read: {why}") from None
        return ConfigData({key: found[key] for key in keys if key in found})
