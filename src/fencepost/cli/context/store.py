"""The file of contexts: which clusters this user works with, and as whom. It has no passwords, only where they are.

{"current": "prod", "contexts": {"prod": {"url": "https://…", "user": "alice", "password_from": "env:PROD_PASSWORD"}}}
"""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fencepost.cli.places import config_directory
from fencepost.config import ConfigError

SOURCES = "env:NAME (a variable of the environment) or file:PATH (the first line of a file)"


@dataclass(frozen=True)
class Context:
    """One cluster.

    Attributes:
        url: A worker's REST API.
        user: For basic authentication.
        password_from: Where its password is, as `SOURCES` says; None: it is asked for.
        token_from: Where a bearer token is.
        cacert: A file (PEM) with the authorities of the workers' certificates.
        cert: A file (PEM) with a client certificate and its key.
    """

    url: str
    user: str | None = None
    password_from: str | None = None
    token_from: str | None = None
    cacert: str | None = None
    cert: str | None = None

    def to_json(self) -> dict[str, str]:
        """Return what the file has."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Contexts:
    """All contexts, and the name of the one that is used if a command names none."""

    by_name: Mapping[str, Context] = field(default_factory=dict)
    current: str | None = None

    @classmethod
    def load(cls) -> "Contexts":
        """Read the user's file; without one there are no contexts. Raises ConfigError."""
        path = contexts_file()
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            by_name = {str(name): _context(each) for name, each in found["contexts"].items()}
            return cls(by_name, found.get("current"))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"{path}: no file of contexts: {error}; mend or remove it") from None

    def save(self) -> None:
        """Replace the user's file, which nobody else may read. Raises ConfigError."""
        path = contexts_file()
        text = json.dumps(
            {"current": self.current, "contexts": {name: each.to_json() for name, each in self.by_name.items()}},
            indent=2,
        )
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, made = tempfile.mkstemp(dir=path.parent)  # of mode 0600
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            Path(made).replace(path)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error}") from None

    def named(self, name: str) -> Context:
        """Return one. Raises ConfigError."""
        if name not in self.by_name:
            known = ", ".join(self.by_name) or "none"
            raise ConfigError(
                f"There is no context {name} (there are: {known}); `fencepost context add {name} --url …`"
            )
        return self.by_name[name]

    def with_one(self, name: str, context: Context) -> "Contexts":
        """Return these with one added or replaced; the first one becomes the current one."""
        return replace(self, by_name={**self.by_name, name: context}, current=self.current or name)

    def without(self, name: str) -> "Contexts":
        """Return these without one. Raises ConfigError."""
        self.named(name)
        left = {each: context for each, context in self.by_name.items() if each != name}
        return Contexts(left, None if self.current == name else self.current)


def contexts_file() -> Path:
    """Return the path of the file, which need not exist."""
    return config_directory() / "contexts.json"


def secret_from(source: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the password or token at a source. Raises ConfigError, which names the source."""
    kind, _, where = source.partition(":")
    if kind == "env":
        if not environment.get(where):
            raise ConfigError(f"{source}: the variable {where} is not set: export it, or change the context")
        return environment[where]
    try:
        lines = Path(where).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{source}: cannot be read: {error}") from None
    if not lines or not lines[0]:
        raise ConfigError(f"{source}: the first line of the file is empty")
    return lines[0]


def ensure_source(option: str, source: str | None) -> None:
    """Raise ConfigError if a text says no place for a secret. The text is not shown: it may be the secret itself."""
    kind, _, where = (source or "env:x").partition(":")
    if kind not in ("env", "file") or not where:
        raise ConfigError(f"{option}: expected {SOURCES}, not the secret itself")


def _context(found: Mapping[str, Any]) -> Context:
    known = {each.name for each in fields(Context)}
    if unknown := sorted(set(found) - known):
        raise ValueError(f"unknown field {unknown[0]}")
    if not all(isinstance(value, str) for value in found.values()):
        raise ValueError("every field is a text")
    return Context(**found)
