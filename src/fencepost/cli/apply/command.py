"""`fencepost apply`, with its options."""

from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.on_worker import on_worker
from fencepost.cli.output import Form, Output

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect


@on_worker
def apply(
    connect: "Connect",
    files: Annotated[
        list[str],
        typer.Argument(
            help="Files of connectors (.json, .yaml, .properties), directories of .json and .yaml files, or - for "
            "standard input.",
            metavar="FILE|DIR...",
        ),
    ],
    diff: Annotated[
        bool, typer.Option("--diff", "--dry-run", help="Show what would be done, key by key, and change nothing.")
    ] = False,
    prune: Annotated[
        list[str] | None,
        typer.Option(
            help="Also delete connectors whose name matches this pattern and that no file has, after they were shown; "
            "repeatable. '*' stands for all connectors of the cluster.",
            metavar="PATTERN",
        ),
    ] = None,
    send_secrets: Annotated[
        bool,
        typer.Option("--send-secrets", help="Send secrets that the worker hides, so that they cannot be compared."),
    ] = False,
    wait: Annotated[
        float | None, typer.Option(help="Wait up to so many seconds until everything runs.", metavar="SECONDS", min=1)
    ] = None,
    output: Form = Output.TABLE,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before deleting.")] = False,
) -> None:
    """Create and change connectors so that they are as files describe them. What is equal already is left alone.

    All are validated first; if one is invalid, nothing changes.

    Exit code: 0: all is done, or nothing was to be done; 1: something failed; 2: a file or a config is wrong; 3, with
    --diff: something differs.
    """
    from fencepost.cli.apply.apply import Applying, Options

    options = Options(
        is_dry=diff,
        sends_secrets=send_secrets,
        owned=tuple(prune or ()),
        wait_s=wait,
        output=output,
        is_confirmed=yes,
    )
    raise typer.Exit(Applying(connect, options).run(files))
