"""Secrets of connector configs in REST answers: shown as `[hidden]`, and kept if they are sent back like that (E11)."""

import contextlib
import re
from functools import lru_cache

from fencepost.config import Config, ConfigError, Type
from fencepost.config.connector import ConnectorConfig
from fencepost.config.raw import RawConfig
from fencepost.plugin import PluginKind, registry
from fencepost.telemetry.secret import HIDDEN

_NAMED_LIKE_A_SECRET = re.compile(
    r"(password|passwd|secret|token|credentials?|access\.key|jaas\.config|keystore\.key)$", re.IGNORECASE
)
_REFERENCE = re.compile(r"^\$\{[^}]*\}$")
_CLASS, _VERSION = (ConnectorConfig.key_of(name) for name in ("connector_class", "connector_version"))


@lru_cache(maxsize=1024)
def _declared(connector_class: str, version: str | None) -> frozenset[str]:
    """Return the keys that the connector's class declares as passwords, in any version if that one is not installed."""
    for wanted in dict.fromkeys((version, None)):
        with contextlib.suppress(ConfigError):
            return _passwords(registry().find(PluginKind.CONNECTOR, connector_class, wanted))
    return frozenset()


def _passwords(cls: type[Config]) -> frozenset[str]:
    return frozenset(key for key, one in cls.settings().items() if one.kind is Type.PASSWORD)


@lru_cache(maxsize=4096)
def _is_named_like_one(key: str) -> bool:
    return _NAMED_LIKE_A_SECRET.search(key) is not None


def _is_secret(key: str, connector: RawConfig) -> bool:
    return _is_named_like_one(key) or key in _declared(connector.get(_CLASS) or "", connector.get(_VERSION))


def masked(config: RawConfig, connector: RawConfig | None = None) -> RawConfig:
    """Return a config that may be shown; references to config providers stay, as they reveal nothing.

    Args:
        connector: The config of the connector, if `config` is that of one of its tasks.
    """
    of_connector = connector or config
    return {
        key: HIDDEN if value and _is_secret(key, of_connector) and not _REFERENCE.match(value) else value
        for key, value in config.items()
    }


def unmasked(config: RawConfig, stored: RawConfig | None) -> RawConfig:
    """Return a config with the stored values in place of `[hidden]`: a client may send back what it was shown."""
    if not stored:
        return config
    return {key: stored[key] if value == HIDDEN and stored.get(key) else value for key, value in config.items()}
