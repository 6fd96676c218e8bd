"""The report of an audit, for people and for programs."""

from collections.abc import Iterator
from typing import Any

import typer

from fencepost.cli.output import Output, Printer
from fencepost.ledger.audit import AuditReport
from fencepost.ledger.files_audit import FilesReport
from fencepost.ledger.finding import PartitionFindings
from fencepost.ledger.mirror_audit import MirrorReport
from fencepost.telemetry.plain_line import printable

VERIFIED, DIFFERS, INCOMPLETE = 0, 1, 2
_NOT_IN_LEDGER = "not_in_ledger"
_OTHERS = {FilesReport: "not_in_files", MirrorReport: "of_others"}
"""What the records are called that the other end says nothing about."""

Report = AuditReport | FilesReport | MirrorReport


def code_of(report: Report) -> int:
    """Return the exit code."""
    if report.differences:
        return DIFFERS
    return VERIFIED if report.is_complete else INCOMPLETE


def print_report(report: Report, output: Output) -> None:
    """Print a report."""
    printer = Printer(output)
    if not printer.is_table:
        printer.data(to_json(report))
        return
    headings = ("TOPIC", "PARTITION", "OFFSETS", "VERIFIED", _others(report).replace("_", " ").upper(), "DIFFERENCES")
    printer.table(headings, [_row(found) for found in report.partitions])
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


def _lines(report: Report) -> Iterator[str]:
    for found in report.partitions:
        for note in found.notes:
            yield f"note: {found.place.topic}-{found.place.partition}: {note}"
    for note in report.notes:
        yield f"note: {note}"
    for difference in report.differences:
        yield f"DIFFERS: {difference}"
    yield _verdict(report)


def _verdict(report: Report) -> str:
    if isinstance(report, FilesReport):
        files = f"{report.files} file{'' if report.files == 1 else 's'}"
        return _said(report, "in", f"the files of {report.connector} ({files} in {report.path})", "")
    if isinstance(report, MirrorReport):
        return _said(report, "in", f"the copies that {report.connector} has made", "")
    if not report.entries:
        return f"{report.ledger} has no readable entry of {report.connector}."
    entries = f"{report.entries} entr{'y' if report.entries == 1 else 'ies'}"
    return _said(report, "as", f"the ledger of {report.connector} ({entries} in {report.ledger})", " says")


def _others(report: Report) -> str:
    return _OTHERS.get(type(report), _NOT_IN_LEDGER)


def _said(report: Report, how: str, of: str, end: str) -> str:
    if report.differences:
        count = len(report.differences)
        return f"{count} difference{'' if count == 1 else 's'} from {of}."
    what = "Everything" if report.is_complete else "What could be compared"
    return f"{what} is {how} {of}{end}."


def _of(report: Report) -> dict[str, Any]:
    if isinstance(report, FilesReport):
        return {"path": str(report.path), "files": report.files}
    if isinstance(report, MirrorReport):
        return {}
    return {"ledger": report.ledger, "entries": report.entries}


def to_json(report: Report) -> dict[str, Any]:
    """Return the report for programs."""
    others = _others(report)
    return {
        "connector": report.connector,
        **_of(report),
        "is_complete": report.is_complete,
        "differences": [difference.to_json() for difference in report.differences],
        "partitions": [
            {
                "topic": found.place.topic,
                "partition": found.place.partition,
                "start": found.start,
                "end": found.end,
                "verified": found.verified,
                others: found.others,
                "is_complete": found.is_complete,
                "notes": found.notes,
            }
            for found in report.partitions
        ],
        "notes": report.notes,
    }
