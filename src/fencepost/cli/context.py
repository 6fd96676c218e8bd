"""`fencepost context`: which clusters this user works with, and as whom; and the file that has them.

The file has no passwords, only where they are:
{"current": "prod", "contexts": {"prod": {"url": "https://…", "user": "alice", "password_from": "env:PROD_PASSWORD"}}}
"""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fencepost.cli.output import Form, Output, Printer
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
    """Return the path of the file, which need not exist: below `$XDG_CONFIG_HOME`, by default `~/.config`."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "fencepost" / "contexts.json"


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


app = typer.Typer(no_args_is_help=True, help="Name the clusters that commands ask, and say who asks.")


def _names(incomplete: str) -> list[str]:
    try:
        return sorted(name for name in Contexts.load().by_name if name.startswith(incomplete))
    except ConfigError:  # the user is typing: the command will say it
        return []


_Name = Annotated[str, typer.Argument(help="The context's name.", metavar="NAME")]
_Known = Annotated[str, typer.Argument(help="The context's name.", metavar="NAME", autocompletion=_names)]


@app.command()
def add(
    name: _Name,
    url: Annotated[str, typer.Option(help="A worker's REST API, ours or Kafka Connect's.")],
    user: Annotated[str | None, typer.Option(help="The user, for basic authentication.")] = None,
    password_from: Annotated[
        str | None, typer.Option(help=f"Where the password is: {SOURCES}. Default: it is asked for.", metavar="SOURCE")
    ] = None,
    token_from: Annotated[
        str | None, typer.Option(help=f"Where a bearer token is: {SOURCES}.", metavar="SOURCE")
    ] = None,
    cacert: Annotated[
        Path | None, typer.Option(help="A file (PEM) with the authorities of the workers' certificates.")
    ] = None,
    cert: Annotated[Path | None, typer.Option(help="A file (PEM) with a client certificate and its key.")] = None,
) -> None:
    """Add a context, or replace the one of this name. The first one is used at once.

    Passwords and tokens are not stored: the file says where they are.
    """
    ensure_source("--password-from", password_from)
    ensure_source("--token-from", token_from)
    _ensure_url(url)
    if password_from and not user:
        raise ConfigError("--password-from needs --user")
    if user and token_from:
        raise ConfigError("--user and --token-from are two ways to say who asks: give one")
    files = [None if each is None else str(each.expanduser().absolute()) for each in (cacert, cert)]
    contexts = Contexts.load().with_one(name, Context(url, user, password_from, token_from, *files))
    contexts.save()
    typer.echo(f"Added {name}" + (", which is used from now on" if contexts.current == name else ""))


@app.command()
def use(name: _Known) -> None:
    """Use a context from now on, wherever a command names no other."""
    contexts = Contexts.load()
    contexts.named(name)
    Contexts(contexts.by_name, name).save()
    typer.echo(f"Using {name}: {contexts.by_name[name].url}")


@app.command("list")
def list_all(output: Form = Output.TABLE) -> None:
    """List the contexts; a star marks the one in use."""
    contexts = Contexts.load()
    Printer(output).listing(
        [{"name": n, "current": n == contexts.current, **c.to_json()} for n, c in contexts.by_name.items()],
        ("", "NAME", "URL", "WHO"),
        [("*" if n == contexts.current else "", n, c.url, _who(c)) for n, c in contexts.by_name.items()],
    )


@app.command()
def remove(name: _Known) -> None:
    """Remove a context. Nothing changes in the cluster."""
    Contexts.load().without(name).save()
    typer.echo(f"Removed {name}")


def _who(context: Context) -> str:
    if context.user:
        return context.user
    return "a token" if context.token_from else "a certificate" if context.cert else ""


def _ensure_url(url: str) -> None:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("--url: expected http://HOST:PORT or https://HOST:PORT")
    if parts.username or parts.password:
        raise ConfigError("--url: it must not contain a user or a password: use --user and --password-from")
