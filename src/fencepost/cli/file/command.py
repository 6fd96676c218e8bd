"""Commands that read or write files of connectors, with their options."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.on_worker import ConnectorName, Yes, confirm, connector_names, on_worker
from fencepost.cli.output import Form, Output, Printer
from fencepost.config import ConfigError
from fencepost.telemetry.plain_line import printable

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
    from fencepost.cli.file.apply import Applying, Options

    options = Options(
        is_dry=diff,
        sends_secrets=send_secrets,
        owned=tuple(prune or ()),
        wait_s=wait,
        output=output,
        is_confirmed=yes,
    )
    raise typer.Exit(Applying(connect, options).run(files))


@on_worker
def validate(
    connect: "Connect",
    files: Annotated[list[str], typer.Argument(help="Files of connectors, as for `apply`.", metavar="FILE|DIR...")],
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no worker, but the plug-ins of --plugin-path, and no other system.")
    ] = False,
    plugin_path: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="With --offline: a directory with plug-ins, as in plugin.path; repeatable."),
    ] = None,
    properties: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --offline: the file of the workers, for its settings and plugin.path."),
    ] = None,
    output: Form = Output.TABLE,
) -> None:
    """Say what is wrong with files of connectors, key by key, and which keys look like typos. Changes nothing.

    With --offline no worker is needed, as for checks of a repository. Then values with references to config providers
    are not checked, nor what only a running system can say.

    Exit code: 0: all are valid; 1: the workers cannot be asked; 2: something is wrong.
    """
    from fencepost.cli.connector.view import all_connectors
    from fencepost.cli.connector_file import Fault, read_files
    from fencepost.cli.file.apply import WRONG
    from fencepost.cli.file.plan import filled
    from fencepost.cli.file.validation import Validation
    from fencepost.cli.masking import Masking

    content, masking = read_files(files), Masking()
    if offline:
        from fencepost.cli.file.validation import offline_workers

        unfilled: list[Fault] = []
        verdict = Validation(offline_workers(plugin_path or (), properties), masking).validate(content.wanted)
    else:
        there = {view.name: view.config for view in all_connectors(connect)} if content.wanted else {}
        merged, unfilled = filled(content.wanted, there)
        verdict = Validation(connect, masking).validate(merged, unfilled)
    faults = [*content.faults, *unfilled, *verdict.faults]
    printer = Printer(output)
    if printer.is_table:
        for warning in verdict.warnings:
            typer.echo(printable(f"warning: {warning.masked(masking.text)}"), err=True)
        for fault in faults:
            typer.echo(printable(str(fault.masked(masking.text))), err=True)
        wrong = {(fault.file, fault.name) for fault in faults}
        typer.echo(
            f"{len([each for each in content.wanted if (each.file, each.name) not in wrong])} valid"
            + (f", {len(wrong)} not" if wrong else "")
        )
    else:
        printer.data({"faults": [vars(each) for each in faults], "warnings": [vars(each) for each in verdict.warnings]})
    if faults:
        raise typer.Exit(WRONG)


@on_worker
def edit(connect: "Connect", name: ConnectorName, yes: Yes = False) -> None:
    """Edit a connector's config in $VISUAL or $EDITOR; it is stored once it is valid and you have seen what changes.

    In place of a secret is ${fill:KEY}, which keeps the value that the connector has.
    """
    from fencepost.cli.connector.view import existing_connector
    from fencepost.cli.file.apply import DIFFERENT, WRONG, Applying, Options, document_of, text_of
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


@on_worker
def export(
    connect: "Connect",
    patterns: Annotated[
        list[str] | None,
        typer.Argument(
            help="Connectors; * stands for any characters. Default: all.",
            metavar="[PATTERN...]",
            autocompletion=connector_names,
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", help="Write a file for each connector to this directory.", metavar="DIR"),
    ] = None,
    with_secrets: Annotated[
        bool,
        typer.Option(
            "--with-secrets", help="With --dir: also write the secrets that the workers show, as Kafka Connect does."
        ),
    ] = False,
) -> None:
    """Print configs, or write them to files, in the form that `apply` takes: a backup of a cluster.

    In place of a secret is ${fill:KEY}, with which `apply` keeps the value that the connector has. For another cluster,
    it has to be replaced by the secret or by a reference; the keys are listed.
    """
    from fencepost.cli.file.apply import export_connectors

    export_connectors(connect, patterns or (), directory, with_secrets=with_secrets)


def plan(
    connector: Annotated[
        Path, typer.Argument(help="A connector's config in JSON, as for POST /connectors.", metavar="FILE")
    ],
    properties: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The workers' file: their Kafka, converters, providers and plugin.path."),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option(help="Kafka's bootstrap servers. Default: the file's, or 127.0.0.1:9092.")
    ] = None,
    plugin_path: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="A directory with plug-ins, as in plugin.path; repeatable. Default: the file's."
        ),
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=100, help="How many records at most.")] = 3,
) -> None:
    """Show what a connector would do with a few records, and which rights on topics are missing. Nothing is written.

    A source in Python is polled in this process, from its beginning; nothing is committed, and its commit() is not
    called. For a sink or a stream the newest records of its topics are read, in no group. Each record is shown as it
    was read, and as it is after transforms and converters. No task of a sink or a stream is started, nor a source in
    Java, which may create something: Debezium's create a replication slot.
    """
    from fencepost.cli.file.record_plan import planned

    for line in planned(connector, properties, bootstrap, plugin_path or (), count):
        typer.echo(line)
