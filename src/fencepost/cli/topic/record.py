"""A record in lines for people."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from fencepost.telemetry.plain_line import printable


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
