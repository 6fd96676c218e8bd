"""What the secret stores of clouds have in common: named secrets, each a text, which may be a JSON object."""

import importlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from fencepost.api import Config, ConfigData, ConfigError, ConfigProvider, at_least, setting
from fencepost.config import Type
from fencepost.config.check import each, parsed_by


def _absolute(text: str) -> None:
    if not Path(text).is_absolute():
        raise ValueError("must be absolute paths, and none of them empty")


class AllowedPaths(Config):
    """The setting that limits what files a provider reads."""

    allowed_paths: list[str] = setting(
        "allowed.paths",
        default=[],
        check=each(parsed_by(_absolute, "absolute paths")),
        doc="The only files and directories that may be read, with everything below them; empty: any.",
    )

    def allowed(self, path: str) -> Path:
        """Return a path that may be read. Raises ConfigError."""
        if not path:
            raise ConfigError("the reference has no path: write ${provider:/path:key}")
        found = Path(path).resolve()
        allowed = [Path(one).resolve() for one in self.allowed_paths]
        if allowed and not any(map(found.is_relative_to, allowed)):
            raise ConfigError(f"{path} is not below the provider's allowed.paths: name its directory there")
        return found


_ENDS = tuple("/-._:")


class AllowedNames(Config):
    """The setting that limits what secrets of a store are looked up."""

    allowed_paths: list[str] | None = setting(
        "allowed.paths",
        default=None,
        doc="The only secrets that are looked up: their names, or how these begin: up to a `/`, or to the `/`, `-`, "
        "`.`, `_` or `:` that an entry ends with. Unset: any that the store allows.",
    )

    def require_allowed(self, name: str) -> None:
        """Raise ConfigError for a name that may not be looked up."""
        if self.allowed_paths is None:
            return
        begins = [each if each.endswith(_ENDS) else f"{each}/" for each in self.allowed_paths if each]
        if name not in self.allowed_paths and not name.startswith(tuple(begins)):
            raise ConfigError(f"{name} is not below the provider's allowed.paths: name it there")


def imported(module: str, extra: str) -> ModuleType:
    """Return a module of an extra. Raises ConfigError, which names the extra, if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"the library {error.name or module} is not installed: pip install 'fencepost[{extra}]', on workers and "
            "executors"
        ) from None


@dataclass(frozen=True)
class StoredSecret:
    """A secret's text; `ttl_ms`: when the store will replace it, if it says so."""

    text: str = field(repr=False)
    ttl_ms: int | None = None


class SecretStore(AllowedNames, ConfigProvider):
    """`${store:NAME}` is the whole text of the secret NAME, `${store:NAME:KEY}` a field of the JSON object in it."""

    refresh_interval_ms: int | None = setting(
        "refresh.interval.ms",
        type=Type.LONG,
        default=None,
        check=at_least(1_000),
        doc="After how long connectors and tasks look values up again, and are restarted for it. Unset: when the store "
        "says that a value expires.",
    )

    @abstractmethod
    def secret(self, name: str) -> StoredSecret | None:
        """Return a secret; None if there is none. Raises RetriableError or ConfigError."""

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        names = [path] if path else sorted(keys)
        for name in names:
            self.require_allowed(name)
        found = {name: self.secret(name) for name in names}
        known = {name: secret for name, secret in found.items() if secret is not None}
        if path and path not in known:
            raise ConfigError(f"there is no secret {path}: create it, or correct the name")
        values = _fields(path, known[path].text, keys) if path else {name: one.text for name, one in known.items()}
        ttls = [one.ttl_ms for one in known.values() if one.ttl_ms is not None]
        if self.refresh_interval_ms is not None:
            ttls.append(self.refresh_interval_ms)
        return ConfigData(values, min(ttls, default=None))


def until_ms(moment: datetime) -> int | None:
    """Return the milliseconds until a moment; None if it is over: when the value changes next is then unknown."""
    left_ms = int((moment - datetime.now(UTC)).total_seconds() * 1000)
    return left_ms if left_ms > 0 else None


def _fields(name: str, text: str, keys: Set[str]) -> Mapping[str, str]:
    try:
        fields: Any = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ConfigError(f"the secret {name} is not a JSON object: refer to it as a whole, without a key")
    return {key: as_text(fields[key]) for key in keys if fields.get(key) is not None}


def as_text(value: Any) -> str:
    """Return a JSON value as the text of a config."""
    return value if isinstance(value, str) else json.dumps(value)
