"""Variables of the process's environment: `${env:PASSWORD}`."""

import os
import re
from collections.abc import Set

from fencepost.api import ConfigData, ConfigError, ConfigProvider, matches_regex, setting


class EnvVarConfigProvider(ConfigProvider):
    """The key is the name of a variable. There is no path."""

    allowlist_pattern: str = setting(
        "allowlist.pattern",
        default=".*",
        check=matches_regex(),
        doc="A regular expression: only variables whose whole name it matches are looked up.",
    )

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        if path:
            raise ConfigError("environment variables have no path: write ${env:NAME}")
        for key in sorted(keys):
            if re.fullmatch(self.allowlist_pattern, key) is None:
                raise ConfigError(f"{key} is not in the provider's allowlist.pattern: add it there")
            if key not in os.environ:
                raise ConfigError(f"there is no {key} in the environment: set it")
        return ConfigData({key: os.environ[key] for key in keys})
