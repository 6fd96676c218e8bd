"""The report of an audit, for people and for programs."""

from collections.abc import Iterator
from typing import Any

import typer

from fencepost.cli.output import Output, Printer, printable
from fencepost.ledger.audit import AuditReport
from fencepost.ledger.finding import PartitionFindings

VERIFIED, DIFFERS, INCOMPLETE = 0, 1, 2
_HEADINGS = ("TOPIC", "PARTITION", "OFFSETS", "VERIFIED", "NOT IN LEDGER", "DIFFERENCES")


def code_of(report: AuditReport) -> int:
    """Return the exit code."""
    if report.differences:
        return DIFFERS
    return VERIFIED if report.is_complete else INCOMPLETE


def print_report(report: AuditReport, output: Output) -> None:
    """Print a report."""
    printer = Printer(output)
    if not printer.is_table:
        printer.data(to_json(report))
        return
    printer.table(_HEADINGS, [_row(found) for found in report.partitions])
    for line in _lines(report):
        typer.echo(printable(line))


def _row(found: PartitionFindings) -> tuple[str, ...]:
    return (
        found.place.topic,
        str(found.place.partition),
        f"{found.start} to {found.end}",
        str(found.verified),
        str(found.others),
        str(len(found.differences)),
    )


def _lines(report: AuditReport) -> Iterator[str]:
    for found in report.partitions:
        for note in found.notes:
            yield f"note: {found.place.topic}-{found.place.partition}: {note}"
    for note in report.notes:
        yield f"note: {note}"
    for difference in report.differences:
        yield f"DIFFERS: {difference}"
    yield _verdict(report)


def _verdict(report: AuditReport) -> str:
    if not report.entries:
        return f"{report.ledger} has no entry of {report.connector}."
    entries = f"{report.entries} entr{'y' if report.entries == 1 else 'ies'}"
    of = f"the ledger of {report.connector} ({entries} in {report.ledger})"
    if report.differences:
        count = len(report.differences)
        return f"{count} difference{'' if count == 1 else 's'} from {of}."
    if report.is_complete:
        return f"Everything is as {of} says."
    return f"What could be compared is as {of} says."


def to_json(report: AuditReport) -> dict[str, Any]:
    """Return the report for programs."""
    return {
        "connector": report.connector,
        "ledger": report.ledger,
        "entries": report.entries,
        "is_complete": report.is_complete,
        "differences": [difference.to_json() for difference in report.differences],
        "partitions": [
            {
                "topic": found.place.topic,
                "partition": found.place.partition,
                "start": found.start,
                "end": found.end,
                "verified": found.verified,
                "not_in_ledger": found.others,
                "is_complete": found.is_complete,
                "notes": found.notes,
            }
            for found in report.partitions
        ],
        "notes": report.notes,
    }
