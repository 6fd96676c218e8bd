"""`fencepost topic`, with its options."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.completion import connector_names
from fencepost.cli.connect import RefusedError
from fencepost.cli.on_worker import on_worker
from fencepost.cli.output import Form, Output, Printer
from fencepost.cli.topic.record import lines_of
from fencepost.config import ConfigError
from fencepost.telemetry.plain_line import printable

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect

app = typer.Typer(help="Topics and their records, as the workers read them.", no_args_is_help=True)

_LATEST = "latest"
_MOST = 500
_PAUSE_S = 1.0
_OLD = "these workers do not read topics: they are Kafka Connect's, or of an older version"


@app.command("list")
@on_worker
def list_topics(connect: "Connect", output: Form = Output.TABLE) -> None:
    """List the topics of the workers' Kafka. With roles this needs edit for all connectors."""
    found = _asked(connect, ("topics",), {})
    printer = Printer(output)
    if printer.is_table:
        printer.table(("TOPIC", "PARTITIONS"), [(one["name"], str(one["partitions"])) for one in found])
    else:
        printer.data(found)


@app.command()
@on_worker
def read(
    connect: "Connect",
    topic: Annotated[str, typer.Argument(help="A topic.", metavar="TOPIC")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=_MOST, help="How many records, at first.")] = 10,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            help="earliest: the first records; latest: the last ones; an offset; or a time: 2026-11-21T10:00:00Z.",
            metavar="earliest|latest|OFFSET|TIME",
        ),
    ] = _LATEST,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
    partition: Annotated[int | None, typer.Option(min=0, help="Only records of this partition.")] = None,
    connector: Annotated[
        str | None,
        typer.Option(
            help="Read as this connector does, which reads or writes the topic: its converters, its Kafka, its rights.",
            autocompletion=connector_names,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print an object of JSON in each line.")] = False,
) -> None:
    """Show committed records of a topic: keys, values and headers.

    With --follow it waits for a topic that does not exist yet, and goes on while workers are started again.

    The worker reads them, so this needs no access to Kafka. With roles it needs operate for the --connector; without
    that option, edit for all connectors.
    """
    path = ("topics", topic, "records") if connector is None else ("connectors", connector, "topics", topic, "records")
    given: dict[str, object] = {"from": start} | ({} if partition is None else {"partition": partition})
    for record in _records(connect, path, given, count, is_endless=follow):
        for line in [json.dumps(record, ensure_ascii=False)] if as_json else lines_of(record):
            typer.echo(line)


def _records(
    connect: "Connect", path: Sequence[str], given: Mapping[str, object], count: int, *, is_endless: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield so many records, page by page, and then those that are written later."""
    query, left, trouble = dict(given), count, ""
    while True:
        try:
            page = _asked(connect, path, {**query, "limit": left or _MOST})
        except (ConfigError, RefusedError) as error:
            if not is_endless or not (query != given or _is_missing(error)):
                raise
            trouble = _warned(error, trouble)
            time.sleep(_PAUSE_S)
            continue
        trouble = ""
        yield from page["records"]
        is_at_end = query["from"] in (_LATEST, page["next"])
        left = 0 if is_at_end else max(0, left - len(page["records"]))
        query["from"] = page["next"]
        if not left and not is_endless:
            return
        if is_at_end and not page["records"]:
            time.sleep(_PAUSE_S)


def _is_missing(error: Exception) -> bool:
    """Say whether the topic does not exist yet."""
    return isinstance(error, RefusedError) and error.status == 404 and str(error).startswith("There is no topic")


def _warned(error: Exception, before: str) -> str:
    """Say, once, why there are no records now: the topic is not there yet, or the worker is started again."""
    if str(error) != before:
        typer.echo(printable(f"-- {error}; trying again"), err=True)
    return str(error)


def _asked(connect: "Connect", path: Sequence[str], query: Mapping[str, object]) -> Any:
    try:
        return connect.get(*path, **query)
    except RefusedError as error:
        if error.status in (404, 405) and str(error).startswith("HTTP 40"):
            raise ConfigError(f"{connect.access.named}: {_OLD}") from None
        raise
