"""Values from elsewhere, `${provider:path:key}`, looked up as Kafka's own config providers do.

No error contains a value that was looked up (E11).
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from fencepost.config.errors import ConfigError
from fencepost.config.properties import read_properties
from fencepost.config.reference import REFERENCE, shown
from fencepost.config.worker import WorkerConfig

_PROVIDERS = WorkerConfig.key_of("config_providers")
_PACKAGE = "org.apache.kafka.common.config.provider."


class MissingValueError(Exception):
    """There is no such value, or it may not be looked up. The text says which, and what to do."""


class _Provider(ABC):
    def __init__(self, prefix: str, given: Mapping[str, str]) -> None:
        """`given` are the settings behind `prefix`."""
        self._prefix = prefix
        self._given = given

    @abstractmethod
    def value(self, path: str, key: str) -> str:
        """Look a value up. Raises MissingValueError."""

    def _allowed(self, path: str) -> Path:
        """Return a path that may be read: one below `allowed.paths`, if that is set."""
        allowed = [part.strip() for part in self._given.get("allowed.paths", "").split(",") if part.strip()]
        found = Path(path).resolve()
        if allowed and not any(found.is_relative_to(Path(each).resolve()) for each in allowed):
            raise MissingValueError(f"{path} is not below {self._prefix}allowed.paths: name its directory there")
        return found


class _File(_Provider):
    """A key of a properties file: `${file:/secrets.properties:password}`."""

    def value(self, path: str, key: str) -> str:
        file = self._allowed(path)
        try:
            return read_properties(file)[key]
        except KeyError:
            raise MissingValueError(f"there is no {key} in {path}: add it") from None
        except ConfigError as error:
            why = error.__cause__.strerror if isinstance(error.__cause__, OSError) else "it is not a properties file"
            raise MissingValueError(f"{path} cannot be read: {why}") from None


class _Directory(_Provider):
    """What a file of a directory contains: `${directory:/run/secrets:password}`."""

    def value(self, path: str, key: str) -> str:
        directory = self._allowed(path)
        if Path(key).name != key:
            raise MissingValueError(f"{key} is not the name of a file in {path}")
        try:
            return (directory / key).read_text()
        except OSError as error:
            raise MissingValueError(f"{path}/{key} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise MissingValueError(f"{path}/{key} cannot be read: it is not text") from None


class _Environment(_Provider):
    """A variable of the process: `${env:PASSWORD}`."""

    def value(self, path: str, key: str) -> str:
        if path:
            raise MissingValueError("environment variables have no path: write ${env:NAME}")
        pattern = self._given.get("allowlist.pattern", ".*")
        try:
            is_allowed = re.fullmatch(pattern, key) is not None
        except re.error as error:
            raise MissingValueError(f"{self._prefix}allowlist.pattern is not a regular expression: {error}") from None
        if not is_allowed:
            raise MissingValueError(f"{key} is not in {self._prefix}allowlist.pattern: add it there")
        if key not in os.environ:
            raise MissingValueError(f"there is no {key} in the environment: set it")
        return os.environ[key]


_CLASSES: Mapping[str, type[_Provider]] = {
    "FileConfigProvider": _File,
    "DirectoryConfigProvider": _Directory,
    "EnvVarConfigProvider": _Environment,
}


def resolved(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties with all references looked up, and without the settings of providers.

    Raises ConfigError with all faults, including references to a provider that is not in `config.providers`.
    """
    faults: list[str] = []
    named = _names(properties)
    providers = _providers(properties, named, faults)

    def looked_up(key: str, value: str) -> str:
        def replaced(found: re.Match[str]) -> str:
            name, path, of = found.groups()
            provider = providers.get(name)
            if provider is None:
                if name not in named:
                    faults.append(
                        f"{key}: {shown(found)} refers to {name}, which {_PROVIDERS} does not name: add it there"
                    )
                return ""
            try:
                return provider.value(path or "", of)
            except MissingValueError as error:
                faults.append(f"{key}: {found.group()} cannot be looked up: {error}")
                return ""

        return REFERENCE.sub(replaced, value)

    values = {key: looked_up(key, value) for key, value in properties.items() if not _is_of_providers(key)}
    if faults:
        raise ConfigError(faults)
    return values


def _is_of_providers(key: str) -> bool:
    return key == _PROVIDERS or key.startswith(f"{_PROVIDERS}.")


def _names(properties: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in properties.get(_PROVIDERS, "").split(",") if name.strip()]


def _providers(properties: Mapping[str, str], names: list[str], faults: list[str]) -> dict[str, _Provider]:
    found = {}
    for name in names:
        key, prefix = f"{_PROVIDERS}.{name}.class", f"{_PROVIDERS}.{name}.param."
        given = properties.get(key, "").strip()
        cls = _CLASSES.get(given.removeprefix(_PACKAGE))
        if cls is None:
            faults.append(f"Invalid value {given} for configuration {key}: there are {', '.join(_CLASSES)}; use one")
            continue
        own = {k.removeprefix(prefix): value for k, value in properties.items() if k.startswith(prefix)}
        found[name] = cls(prefix, own)
    return found
