"""Settings declared once; typed access, validation, masking and reference pages are derived from them.

Core types: `Config` (a class whose fields are settings), `setting`, `Secret`, `ConfigError`; `WorkerConfig` (the
worker's file), `ConnectorConfig` and `SourceConnectorConfig` (what the framework reads of a connector's config).
Invariants: E11 (a `Secret` prints as `[hidden]`), E12 (a `ConfigError` names every key that is wrong, at once).
"""

from fencepost.config.check import ConfigError, at_least, between, matches_regex, non_empty, one_of, topic_name
from fencepost.config.setting import (
    HIGH,
    LOW,
    MEDIUM,
    Config,
    Importance,
    Secret,
    Setting,
    SettingValue,
    Type,
    Width,
    setting,
)

__all__ = [
    "HIGH",
    "LOW",
    "MEDIUM",
    "Config",
    "ConfigError",
    "Importance",
    "Secret",
    "Setting",
    "SettingValue",
    "Type",
    "Width",
    "at_least",
    "between",
    "matches_regex",
    "non_empty",
    "one_of",
    "setting",
    "topic_name",
]
