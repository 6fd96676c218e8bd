"""`fencepost context`: its commands, with their options."""

from pathlib import Path
from typing import Annotated

import typer

from fencepost.cli.context.store import SOURCES, Context, Contexts, ensure_source
from fencepost.cli.output import Form, Output, Printer
from fencepost.config import ConfigError

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
    printer = Printer(output)
    if not printer.is_table:
        printer.data(
            [{"name": n, "current": n == contexts.current, **c.to_json()} for n, c in contexts.by_name.items()]
        )
        return
    printer.table(
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
