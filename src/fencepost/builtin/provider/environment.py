"""Variables of the process's environment: `${env:PASSWORD}`."""

import os
from collections.abc import Set

from fencepost.api import ConfigData, ConfigError, ConfigProvider, setting
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
