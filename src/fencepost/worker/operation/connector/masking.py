"""Secrets of connector configs in REST answers: shown as `[hidden]`, and kept if they are sent back like that (E11)."""

import re
from functools import lru_cache

from fencepost.config import ConfigError, Type
from fencepost.config.raw import RawConfig
from fencepost.plugin import PluginKind, registry

HIDDEN = "[hidden]"

_NAMED_LIKE_A_SECRET = re.compile(
    r"(password|passwd|secret|token|credentials?|access\.key|jaas\.config|keystore\.key)$", re.IGNORECASE
)
_REFERENCE = re.compile(r"^\$\{[^}]*\}$")
_CLASS = "connector.class"


@lru_cache(maxsize=1024)
def _declared(connector_class: str) -> frozenset[str]:
    """Return the keys that the connector's class declares as passwords."""
    try:
        cls = registry().find(PluginKind.CONNECTOR, connector_class)
    except ConfigError:
        return frozenset()
    return frozenset(key for key, one in cls.settings().items() if one.kind is Type.PASSWORD)


@lru_cache(maxsize=4096)
def _is_named_like_one(key: str) -> bool:
    return _NAMED_LIKE_A_SECRET.search(key) is not None


def _is_secret(key: str, connector_class: str | None) -> bool:
    return _is_named_like_one(key) or key in _declared(connector_class or "")


def masked(config: RawConfig, connector_class: str | None = None) -> RawConfig:
    """Return a config that may be shown; references to config providers stay, as they reveal nothing."""
    name = connector_class or config.get(_CLASS)
    return {
        key: HIDDEN if value and _is_secret(key, name) and not _REFERENCE.match(value) else value
        for key, value in config.items()
    }


def unmasked(config: RawConfig, stored: RawConfig | None) -> RawConfig:
    """Return a config with the stored values in place of `[hidden]`: a client may send back what it was shown."""
    if not stored:
        return config
    return {key: stored[key] if value == HIDDEN and stored.get(key) else value for key, value in config.items()}
