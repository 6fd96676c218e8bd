"""Values of this machine: of a properties file, `${file:/run/secrets.properties:password}`, of the files of a
directory, and of the process's environment, `${env:PASSWORD}`.
"""

import os
from collections.abc import Set
from pathlib import Path

from fencepost.api import ConfigData, ConfigError, ConfigProvider, setting
from fencepost.builtin.provider.store import AllowedPaths
from fencepost.config.file import read_properties
from fencepost.config.java_regex import compiled, java_regex


class EnvVarConfigProvider(ConfigProvider):
    """The key is the name of a variable. There is no path."""

    allowlist_pattern: str = setting(
        "allowlist.pattern",
        default=".*",
        check=java_regex(),
        doc="A Java regular expression: only variables whose whole name it matches are looked up.",
    )

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        if path:
            raise ConfigError("environment variables have no path: write ${env:NAME}")
        for key in sorted(keys):
            if compiled(self.allowlist_pattern).fullmatch(key) is None:
                raise ConfigError(f"{key} is not in the provider's allowlist.pattern: add it there")
            if key not in os.environ:
                raise ConfigError(f"there is no {key} in the environment: set it")
        return ConfigData({key: os.environ[key] for key in keys})


class FileConfigProvider(AllowedPaths, ConfigProvider):
    """The path is a properties file, and the key is one of its keys."""

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        file = self.allowed(path)
        try:
            found = read_properties(file, is_utf8=True)
        except ConfigError as error:
            raise ConfigError(f"{path} cannot be read: {_reason(error.__cause__)}") from None
        return ConfigData({key: found[key] for key in keys if key in found})


def _reason(cause: BaseException | None) -> str | None:
    """Return the reason without the file's text, which may be secret."""
    if isinstance(cause, UnicodeDecodeError):
        return f"it is not UTF-8 (byte {cause.start}): save it as UTF-8"
    return cause.strerror if isinstance(cause, OSError) else "it is not a properties file"


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
