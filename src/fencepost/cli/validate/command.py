"""`fencepost validate`, with its options."""

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
    output: Form = Output.TABLE,
) -> None:
    """Say what is wrong with files of connectors, key by key, and which keys look like typos. Changes nothing.

    Exit code: 0: all are valid; 1: the workers cannot be asked; 2: something is wrong.
    """
    from fencepost.cli.apply.apply import WRONG
    from fencepost.cli.apply.files import read_files
    from fencepost.cli.apply.plan import filled
    from fencepost.cli.apply.validation import Validation
    from fencepost.cli.connector.view import all_connectors
    from fencepost.cli.masking import Masking

    content, masking = read_files(files), Masking()
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
