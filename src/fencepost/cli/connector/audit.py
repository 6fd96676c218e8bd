"""`fencepost audit`: what an audit reads, how far it is, and its report."""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import typer

from fencepost.api import DataFrameConnector, SinkConnector
from fencepost.api.epoch import EpochConnector
from fencepost.builtin.connector.files.sink import FilesSink
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.builtin.postgres.sink.task import PostgresSink
from fencepost.builtin.postgres.source.connector import PostgresSource
from fencepost.cli.client import BOOTSTRAP, client_properties, read_worker_file
from fencepost.cli.connect import Connect
from fencepost.cli.connector.audit_scope import GivenEnds, files_scope, mirror_scope, source_audit, target_audit
from fencepost.cli.output import Output, Printer
from fencepost.config import ConfigError
from fencepost.config.connector import RuntimeChoice
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.ledger.audit import Audit, AuditReport
from fencepost.ledger.database_audit import DatabaseAudit, DatabaseReport, TableFindings
from fencepost.ledger.files_audit import FilesAudit, FilesReport
from fencepost.ledger.finding import PartitionFindings
from fencepost.ledger.mirror_audit import MirrorAudit, MirrorReport
from fencepost.record import TopicPartition
from fencepost.telemetry.plain_line import printable
from fencepost.worker.plan import AnyStream, class_of, is_mirror

_READER = "fencepost-audit"  # a group without commits
_KEY = RuntimeChoice.key_of("ledger_topic")
_EACH = 1_000_000  # records between two lines about the progress


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says about clients: files with their settings, and brokers; else those of a worker."""

    properties: Path | None = None
    source_properties: Path | None = None
    bootstrap: str | None = None
    of_worker: Callable[[], str | None] = lambda: None

    def clients(self, own: str | None = None) -> dict[str, str]:
        """Return the settings of the clients, for the brokers `own` if no others are given. Raises ConfigError."""
        return client_properties(self.properties, self.bootstrap, own, self.of_worker)

    def ends(self) -> GivenEnds:
        """Return the settings of both ends of a mirror. Raises ConfigError."""
        source = {} if self.source_properties is None else read_worker_file(self.source_properties)
        has_target = self.properties is not None or self.bootstrap is not None
        return GivenEnds(source, self.clients() if has_target else None)


class Database(NamedTuple):
    """Whether a source's database is read, and the file that keeps what was read of its topics."""

    is_wanted: bool = False
    state: Path | None = None


NO_DATABASE = Database()


def audit_of(
    connect: Connect, name: str, given: Given, ledger: str | None, *, wait_s: float, database: Database = NO_DATABASE
) -> Audit | FilesAudit | MirrorAudit | DatabaseAudit:
    """Return the audit of a connector. Asks a worker only if no `ledger` is given. Raises ConfigError, RefusedError."""
    config = {} if ledger else connect.get("connectors", name, "config")
    connector = _class_of(config)
    if database.is_wanted:
        return _database_audit(connect, name, given, config, connector, wait_s=wait_s, state=database.state)
    if issubclass(connector, PostgresSink):
        clients = given.clients(config.get(f"consumer.override.{BOOTSTRAP}"))
        return target_audit(_conf(clients), name, config, given.ends().source, clients, state=database.state)
    if issubclass(connector, FilesSink):
        clients = given.clients(config.get(f"consumer.override.{BOOTSTRAP}"))
        scope = files_scope(config, connect.get("connectors", name, "offsets"), clients)
        return FilesAudit(_conf(clients), name, scope)
    if issubclass(connector, MirrorSourceConnector):
        positions = connect.get("connectors", name, "offsets")
        return MirrorAudit(name, mirror_scope(connector, config, positions, given.ends(), _READER), wait_s=wait_s)
    if (reason := why_no_audit(connector)) and not ledger:
        raise ConfigError(f"{name} cannot be audited: {reason}")
    clients = given.clients(config.get(f"producer.override.{BOOTSTRAP}"))
    topic = (ledger or config.get(_KEY, clients.get(_KEY)) or "").strip()
    if not topic or topic.startswith("${"):
        raise ConfigError(
            f"{name} has no {_KEY} in its config: set it, or name the topic with --ledger, or the worker's file with "
            "--properties"
        )
    return Audit(_conf(clients), topic, name, wait_s=wait_s)


def _database_audit(
    connect: Connect,
    name: str,
    given: Given,
    config: Mapping[str, str | None],
    connector: type[Any],
    *,
    wait_s: float,
    state: Path | None,
) -> DatabaseAudit:
    if not issubclass(connector, PostgresSource):
        raise ConfigError(f"{name} is no PostgresSource, so --source-database has no database to read")
    clients = given.clients(config.get(f"producer.override.{BOOTSTRAP}"))

    def offsets() -> Mapping[str, Any]:
        found: Mapping[str, Any] = connect.get("connectors", name, "offsets")
        return found

    own = given.ends().source
    return source_audit(_conf(clients), name, config, offsets, own, clients, wait_s=wait_s, state=state)


def _class_of(config: Mapping[str, str | None]) -> type[Any]:
    try:
        return class_of(config)
    except ConfigError:
        return object  # it is not installed here, or not known


def _conf(given: Mapping[str, str]) -> Mapping[str, Any]:
    return range_conf({**given, "isolation.level": "read_committed"}, _READER).conf


def why_no_audit(connector: type[Any]) -> str:
    """Return why nothing of a connector can be compared, and what to do instead; empty if something can."""
    if issubclass(connector, AnyStream):
        return (
            "a stream may make any output of its input, so nothing says what its topics should have. Compare them with "
            "a query of your own; what a mirror or a FilesSink makes of its topics can be audited"
        )
    if issubclass(connector, DataFrameConnector):
        return (
            "sources whose records Spark reads have no ledger. Compare their topics with a query of your own; what a "
            "mirror or a FilesSink makes of them can be audited"
        )
    if issubclass(connector, SinkConnector | EpochConnector):
        return (
            "of sinks, only FilesSink and PostgresSink can be audited. Compare the store with a query of your own: "
            "`fencepost offsets show` says up to which offset of each partition it has the records"
        )
    if is_mirror(connector):
        return "its records are the mirror's own: audit the connector that copies the topics"
    return ""


class Progress:
    """Shows on a terminal how far partitions were read."""

    def __init__(self) -> None:
        self._shown: dict[TopicPartition, int] = {}

    def __call__(self, place: TopicPartition, offset: int, end: int) -> None:
        if sys.stderr.isatty() and offset - self._shown.get(place, 0) >= _EACH:
            self._shown[place] = offset
            typer.echo(f"{place.topic}-{place.partition}: {offset} of {end}", err=True)


VERIFIED, DIFFERS, INCOMPLETE = 0, 1, 2
_NOT_IN_LEDGER = "not_in_ledger"
_OTHERS = {FilesReport: "not_in_files", MirrorReport: "of_others"}
"""What the records are called that the other end says nothing about."""

Report = AuditReport | FilesReport | MirrorReport
AnyReport = Report | DatabaseReport


def code_of(report: AnyReport) -> int:
    """Return the exit code."""
    if report.differences:
        return DIFFERS
    return VERIFIED if report.is_complete else INCOMPLETE


def print_report(report: AnyReport, output: Output) -> None:
    """Print a report."""
    printer = Printer(output)
    if isinstance(report, DatabaseReport):
        _print_tables(report, printer)
        return
    if not printer.is_table:
        printer.data(to_json(report))
        return
    headings = ("TOPIC", "PARTITION", "OFFSETS", "VERIFIED", _others(report).replace("_", " ").upper(), "DIFFERENCES")
    printer.table(headings, [_row(found) for found in report.partitions])
    for line in _lines(report):
        typer.echo(printable(line))


def _print_tables(report: DatabaseReport, printer: Printer) -> None:
    if not printer.is_table:
        printer.data(_tables_json(report))
        return
    headings = ("TABLE", "TOPIC", "ROWS", "VERIFIED", "NOT COMPARED", "DIFFERENCES")
    rows = [(t.table, t.topic, *map(str, (t.rows, t.verified, t.others, t.differing))) for t in report.tables]
    printer.table(headings, rows)
    notes = [f"note: {table.table}: {note}" for table in report.tables for note in table.notes]
    for line in [*notes, *(f"note: {note}" for note in report.notes), *map("DIFFERS: {}".format, report.differences)]:
        typer.echo(printable(line))
    count = sum(table.differing for table in report.tables)
    what = "Everything" if report.is_complete else "What could be compared"
    where = f"the database at {report.position}"
    said = f"{count} difference{'' if count == 1 else 's'} from {where}." if count else f"{what} is as in {where}."
    typer.echo(said if report.tables else "Nothing could be compared.")


def _tables_json(report: DatabaseReport) -> dict[str, Any]:
    def one(found: TableFindings) -> dict[str, Any]:
        names = ("table", "topic", "rows", "verified", "others", "differing", "notes", "is_complete")
        return {name: getattr(found, name) for name in names}

    return {
        "connector": report.connector,
        "position": report.position,
        "is_complete": report.is_complete,
        "differences": [difference.to_json() for difference in report.differences],
        "tables": [one(found) for found in report.tables],
        "notes": report.notes,
    }


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
