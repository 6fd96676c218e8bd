"""`fencepost edit`, with its options."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fencepost.cli.completion import ConnectorName
from fencepost.cli.on_worker import Yes, confirm, on_worker
from fencepost.config import ConfigError

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect


@on_worker
def edit(connect: "Connect", name: ConnectorName, yes: Yes = False) -> None:
    """Edit a connector's config in $VISUAL or $EDITOR; it is stored once it is valid and you have seen what changes.

    In place of a secret is ${fill:KEY}, which keeps the value that the connector has.
    """
    from fencepost.cli.apply.apply import DIFFERENT, WRONG, Applying, Options
    from fencepost.cli.connector.view import existing_connector
    from fencepost.cli.export.export import document_of, text_of
    from fencepost.cli.masking import Masking

    view, masking = existing_connector(connect, name), Masking()
    masking.learn(connect, view.config)
    document, _ = document_of(view, masking)
    text = text_of(document)
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "connector.json"
        while True:
            changed = _edited(file, text)
            if changed == text:
                typer.echo("Nothing was changed")
                return
            text = changed
            code = Applying(connect, Options(is_dry=True, only=name)).run([str(file)])
            if code != WRONG:
                break
            typer.confirm("Edit it again?", default=True, abort=True, err=True)
        if code == DIFFERENT:
            if not yes:
                confirm(connect, "store this?")
            code = Applying(connect, Options(is_confirmed=True, only=name)).run([str(file)])
    raise typer.Exit(code)


def _edited(file: Path, text: str) -> str:
    """Return the text as the user leaves it. Raises ConfigError if there is no editor."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    file.write_text(text)
    try:
        subprocess.run([*shlex.split(editor), str(file)], check=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"{editor}: {error}; set EDITOR to a program that edits a file") from None
    return file.read_text()
