"""`fencepost validate`, with its options."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.on_worker import on_worker
from fencepost.cli.output import Form, Output, Printer
from fencepost.telemetry.plain_line import printable

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect


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
    from fencepost.cli.apply.apply import WRONG
    from fencepost.cli.apply.files import Fault, read_files
    from fencepost.cli.apply.plan import filled
    from fencepost.cli.apply.validation import Validation
    from fencepost.cli.connector.view import all_connectors
    from fencepost.cli.masking import Masking

    content, masking = read_files(files), Masking()
    if offline:
        from fencepost.cli.apply.offline import offline_workers

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
