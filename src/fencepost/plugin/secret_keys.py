"""Which values of a connector's config are secrets: by the classes that it names, by their keys, by their form."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from fencepost.config import Config, ConfigError, Type
from fencepost.config.connector import (
    PLUGIN_VERSION,
    ConnectorConfig,
    RuntimeChoice,
    SinkConnectorConfig,
    SourceConnectorConfig,
)
from fencepost.config.reference import references, replaced
from fencepost.hook.hosted_task import KnowsSettings
from fencepost.plugin import registry
from fencepost.plugin.kind import PluginKind, class_keys
from fencepost.plugin.registry import PluginRegistry
from fencepost.secret.known import hold
from fencepost.secret.redaction import has_key, has_login, has_password, is_secret_name

_CLASS, _VERSION = (ConnectorConfig.key_of(name) for name in ("connector_class", "connector_version"))
_OF_THE_FRAMEWORK = frozenset(
    (*SourceConnectorConfig.settings(), *SinkConnectorConfig.settings(), *RuntimeChoice.settings())
)


def secret_keys(config: Mapping[str, str | None], connector: Mapping[str, str | None] | None = None) -> set[str]:
    """Return the keys of a config whose values are secrets.

    Args:
        connector: The config of the connector, if `config` is that of one of its tasks.
    """
    declared = frozenset(_declared_keys(connector or config))
    return {
        key
        for key, value in config.items()
        if value and (key in declared or is_secret_name(key) or _has_form_of_one(key, value))
    }


def undecided_keys(connector: Mapping[str, str | None]) -> set[str]:
    """Return the keys of a Java connector's config any of which may be secret: no JVM was asked for its settings yet.

    A thread asks for them; nothing here waits for it. The keys of the framework are not among them.
    """
    cls = _class_of(PluginKind.CONNECTOR, connector.get(_CLASS) or "", connector.get(_VERSION))
    if not isinstance(cls, KnowsSettings) or cls.known_settings() is not None:
        return set()
    return {key for key in connector if key not in _OF_THE_FRAMEWORK}


def hold_given_secrets(
    config: Mapping[str, str | None], hold: Callable[..., Callable[[], None]] = hold
) -> Callable[[], None]:
    """Hide the secrets that a user wrote into a config until the returned function is called (E11)."""
    secrets, shown = secrets_and_shown(config, secret_keys(config))
    return hold(secrets, unless_in=shown)


def secrets_and_shown(config: Mapping[str, str | None], keys: set[str]) -> tuple[list[str], str]:
    """Return the values of the secret keys of a config, and the texts that it shows.

    What is in these is not hidden elsewhere, such as `postgres` where a class has that in its name: texts could not be
    read, and would say that the word is a password.
    """
    return [_without_references(key, config[key] or "") for key in keys], _texts_without(keys, config)


def shown_texts(config: Mapping[str, str | None]) -> str:
    """Return the texts of a config that are no secrets in it."""
    return _texts_without(secret_keys(config), config)


def _texts_without(keys: set[str], config: Mapping[str, str | None]) -> str:
    return "\n".join([*config, *(value for key, value in config.items() if value and key not in keys)])


def looks_secret(key: str, value: str) -> bool:
    """Say whether a value is a secret by its key's name or by its form; nothing is known of the connector's class."""
    return is_secret_name(key) or has_password(_without_references(key, value))


def _has_form_of_one(key: str, value: str) -> bool:
    given = _without_references(key, value)
    return (("@" in value or "=" in value) and has_login(given)) or has_key(given)


def _without_references(key: str, value: str) -> str:
    return replaced(key, value, {one.text: "" for one in references(key, value)})


def _declared_keys(config: Mapping[str, str | None]) -> Iterator[str]:
    yield from _passwords(PluginKind.CONNECTOR, config.get(_CLASS), config.get(_VERSION))
    for kind, key, prefix in class_keys(config):
        found = _passwords(kind, config.get(key), config.get(f"{prefix}{PLUGIN_VERSION}"))
        yield from (f"{prefix}{own}" for own in found)


def _passwords(kind: PluginKind, name: str | None, version: str | None) -> frozenset[str]:
    """Return the keys that a class declares as passwords, in any version if that one is not installed.

    Returns none for a Java class whose settings are not known yet.
    """
    cls = _class_of(kind, name, version) if name else None
    if cls is None or (isinstance(cls, KnowsSettings) and cls.known_settings(asks=False) is None):
        return frozenset()
    return _passwords_in(registry(), kind, name or "", version)


def _class_of(kind: PluginKind, name: str, version: str | None) -> type[Config] | None:
    return _class_in(registry(), kind, name, version)


@lru_cache(maxsize=1024)
def _class_in(plugins: PluginRegistry, kind: PluginKind, name: str, version: str | None) -> type[Config] | None:
    for wanted in dict.fromkeys((version, None)):
        for view in plugins.views():
            with contextlib.suppress(ConfigError):
                found: type[Config] = view.find(kind, name, wanted)
                return found
    return None


@lru_cache(maxsize=1024)
def _passwords_in(plugins: PluginRegistry, kind: PluginKind, name: str, version: str | None) -> frozenset[str]:
    cls = _class_in(plugins, kind, name, version)
    settings = {} if cls is None else cls.settings()
    return frozenset(key for key, one in settings.items() if one.kind is Type.PASSWORD)
