"""`fencepost export`: configs in the form that `apply` takes."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import typer

from fencepost.cli.connect import Connect
from fencepost.cli.connector.view import ConnectorView, all_connectors
from fencepost.cli.masking import Masking
from fencepost.cli.output import counted
from fencepost.cluster.glance import AT_REST
from fencepost.config import ConfigError
from fencepost.secret.redaction import HIDDEN
from fencepost.telemetry.plain_line import printable


def export_connectors(
    connect: Connect, patterns: Sequence[str], directory: Path | None, *, with_secrets: bool = False
) -> None:
    """Print the connectors whose names match, or write files. Raises ConfigError, or as `Connect` does."""
    if with_secrets and directory is None:
        raise ConfigError("--with-secrets needs --dir: secrets are written to files that only you can read")
    views, masking = all_connectors(connect, patterns), Masking()
    if patterns and not views:
        raise ConfigError(f"{connect.access.named}: no connector is named {', '.join(patterns)}")
    documents: list[dict[str, Any]] = []
    unknown: list[str] = []
    for view in views:
        masking.learn(connect, view.config)
        document, keys = document_of(view, masking, with_secrets=with_secrets)
        documents.append(document)
        unknown.extend(f"{view.name}: {key}" for key in keys)
    if directory is None:
        typer.echo(text_of(documents[0] if len(documents) == 1 else documents), nl=False)
    else:
        for document in documents:
            _write(directory / f"{_file_name(document['name'])}.json", text_of(document))
        typer.echo(f"Wrote {counted(len(documents), 'file')} to {directory}", err=True)
    if unknown:
        typer.echo("These secrets are not exported; for another cluster, fill them in first:", err=True)
        for text in unknown:
            typer.echo(printable(f"  {text}"), err=True)


def document_of(
    view: ConnectorView, masking: Masking, *, with_secrets: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return a connector as `apply` takes it, and the keys of the secrets that it lacks."""
    config = {key: value for key, value in view.config.items() if key != "name"}
    secret = masking.secret_keys(config)
    missing = sorted(key for key, value in config.items() if HIDDEN in value or (key in secret and not with_secrets))
    shown = {key: f"${{fill:{key}}}" if key in missing else value for key, value in sorted(config.items())}
    resting = {"initial_state": view.state} if view.state in AT_REST else {}
    return {"name": view.name, "config": shown, **resting}, missing


def text_of(document: Any) -> str:
    """Return documents as a file has them."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _file_name(name: str) -> str:
    """Return a name that no directory is part of, and that `apply` does not take for a hidden file."""
    quoted = quote(name, safe=" +=@,()")
    return f"%2E{quoted[1:]}" if quoted.startswith(".") else quoted


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
