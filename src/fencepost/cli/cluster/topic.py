"""Records of topics, page by page, and in lines for people."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import typer

from fencepost.cli.connect import Connect, RefusedError
from fencepost.cli.on_worker import LATEST, MOST_RECORDS
from fencepost.config import ConfigError
from fencepost.telemetry.plain_line import printable

_PAUSE_S = 1.0


def records(
    connect: Connect, path: Sequence[str], given: Mapping[str, object], count: int, *, is_endless: bool
) -> Iterator[Mapping[str, Any]]:
    """Yield so many records, page by page, and then those that are written later."""
    query, left, trouble = dict(given), count, ""
    while True:
        try:
            page = asked(connect, path, {**query, "limit": left or MOST_RECORDS})
        except (ConfigError, RefusedError) as error:
            is_missing = isinstance(error, RefusedError) and str(error).startswith("There is no topic")
            if not is_endless or not (query != given or is_missing):
                raise
            if str(error) != trouble:
                trouble = str(error)
                typer.echo(printable(f"-- {error}; trying again"), err=True)
            time.sleep(_PAUSE_S)
            continue
        trouble = ""
        yield from page["records"]
        is_at_end = query["from"] in (LATEST, page["next"])
        left = 0 if is_at_end else max(0, left - len(page["records"]))
        query["from"] = page["next"]
        if not left and not is_endless:
            return
        if is_at_end and not page["records"]:
            time.sleep(_PAUSE_S)


def asked(connect: Connect, path: Sequence[str], query: Mapping[str, object]) -> Any:
    try:
        return connect.get(*path, **query)
    except RefusedError as error:
        if error.status in (404, 405) and str(error).startswith("HTTP 40"):
            fault = "these workers do not read topics: they are Kafka Connect's, or of an older version"
            raise ConfigError(f"{connect.access.named}: {fault}") from None
        raise


def lines_of(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the place and time of a record, and below that what it has."""
    yield printable(f"{record['partition']}@{record['offset']}  {_time(record['timestamp_ms'])}".rstrip())
    if record["key"] is not None:
        yield _shown("key", record["key"])
    yield _shown("value", record["value"])
    for header in record["headers"]:
        yield _shown(f"header {header['name']}", header["value"])
    if record["fault"]:
        yield printable(f"  -- {record['fault']}")


def _shown(name: str, data: Mapping[str, Any] | None) -> str:
    if data is None:
        return printable(f"  {name}  (none)")
    form = "base64 " if data["is_base64"] else ""
    rest = f" … of {data['size_bytes']} bytes" if data["is_cut"] else ""
    return printable(f"  {name}  {form}{data['text']}{rest}")


def _time(timestamp_ms: int | None) -> str:
    if timestamp_ms is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
