"""Files of a directory, one for each value: `${directory:/run/secrets:password}`."""

from collections.abc import Set
from pathlib import Path

from fencepost.api import ConfigData, ConfigError, ConfigProvider
from fencepost.builtin.provider.allowed import AllowedPaths


class DirectoryConfigProvider(AllowedPaths, ConfigProvider):
    """The path is a directory, and the key is the name of a file in it, whose text is the value, as it is: in UTF-8."""

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        directory = self.allowed(path)
        return ConfigData({key: self._text(path, directory, key) for key in keys})

    def _text(self, path: str, directory: Path, key: str) -> str:
        if Path(key).name != key:
            raise ConfigError(f"{key} is not the name of a file in {path}")
        self.allowed(str(directory / key))  # it may be a link
        try:
            return (directory / key).read_bytes().decode()
        except OSError as error:
            raise ConfigError(f"{path}/{key} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{path}/{key} cannot be read: it is not UTF-8") from None
