"""Arrow batches as records for the producer. The columns are those of Spark's own Kafka sink.

Rows without a column `value` become JSON objects, byte for byte what orjson writes for a row. Arrow writes whole
numbers, booleans, dates, times in UTC, and text without characters to escape. orjson writes the values of any other
column, all in one call.
"""

import base64
import datetime
import decimal
import functools
from collections.abc import Sequence
from typing import Any

import orjson

from fencepost.builtin.converter.json_arrow import joined, quoted, written
from fencepost.builtin.converter.json_encoding import dumped_all
from fencepost.config import ConfigError
from fencepost.record import BinaryColumn, HeaderBytes, Repeated
from fencepost.record.binary_column import constant
from fencepost.task.delivery.outgoing import OutgoingColumns

_FIRST_YEAR, LAST_YEAR = 1_000, 9_999
_DATE_LENGTH = len("1970-01-01")


def json_rows(batch: Any) -> Sequence[bytes]:
    """Return an object of all columns for each row; values that JSON lacks are written like Spark's `to_json`.

    Raises TypeError for a column type that cannot be written.
    """
    names = batch.schema.names
    if not batch.num_rows or not names or len(set(names)) < len(names):
        return [_dumped(row) for row in batch.to_pylist(maps_as_pydicts="lossy")]
    pieces: list[Any] = []
    before = b"{"
    for name, column in zip(names, batch.columns, strict=True):
        pieces += constant(before + orjson.dumps(name) + b":"), _written(column)
        before = b","
    return joined([*pieces, constant(b"}")])


def _written(column: Any) -> Any:
    import pyarrow as pa

    found = written(column)
    if found is not None:
        return found
    kind = column.type
    if pa.types.is_date32(kind) and _has_plain_years(column):
        return quoted(column.cast(pa.string()))
    if kind in _utc_times() and _has_plain_years(times := column.view(_utc_times()[0])):
        return quoted(_iso_times(times), b"" if kind.tz is None else b"+00:00")
    values = column.to_pylist(maps_as_pydicts="lossy")
    dumped: Sequence[bytes] | None = dumped_all(values, default=_plain)
    return pa.array(list(map(_dumped, values)) if dumped is None else dumped, pa.binary())


@functools.cache
def _utc_times() -> tuple[Any, ...]:
    import pyarrow as pa

    return tuple(pa.timestamp("us", tz) for tz in (None, "UTC", "Etc/UTC"))


def _has_plain_years(days: Any) -> bool:
    """Return whether all years have four digits; Python writes or refuses the others."""
    import pyarrow.compute as pc

    first, last = (year.as_py() for year in pc.min_max(pc.year(days)).values())
    return first is None or (first >= _FIRST_YEAR and last <= LAST_YEAR)


def _iso_times(times: Any) -> Any:
    """Return times in orjson's form: microseconds only if there are any."""
    import pyarrow as pa
    import pyarrow.compute as pc

    seconds = pc.floor_temporal(times, unit="second")
    short = seconds.cast(pa.timestamp("s")).cast(pa.string())
    texts = pc.if_else(pc.equal(seconds, times), short, times.cast(pa.string()))
    return pc.utf8_replace_slice(texts, _DATE_LENGTH, _DATE_LENGTH + 1, "T")


def _dumped(value: object) -> bytes:
    return orjson.dumps(value, default=_plain)


def _plain(value: object) -> object:
    """Write a value that JSON lacks like Spark's `to_json`."""
    if isinstance(value, decimal.Decimal):
        return orjson.Fragment(str(value))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


_BYTES = ("string", "binary")
_ALLOWED = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": ("string",),
    "partition": ("int", "integer"),
    "timestamp": ("timestamp",),
}


class RecordMaker:
    """Turns batches into records.

    If there is a column `value` (string or binary), the columns `key`, `topic`, `partition`, `timestamp` and `headers`
    have their usual meaning, and any other is refused. Without it, each row becomes a JSON object of all its columns.
    """

    def __init__(self, names: Sequence[str], topic: str | None) -> None:
        self._topic = topic
        self._is_json = "value" not in names
        if topic is None and (self._is_json or "topic" not in names):
            raise ConfigError("option topic is missing: name a topic, or give the frame columns topic and value")
        unknown = [] if self._is_json else [n for n in names if n not in (*_ALLOWED, "headers")]
        if unknown:
            raise ConfigError(
                f"column {unknown[0]} is not allowed in a frame with value: use {', '.join(_ALLOWED)} and headers, "
                "or no value, so that rows are written as JSON objects"
            )

    def outgoing(self, batch: Any) -> OutgoingColumns:
        """Return the records of an Arrow batch."""
        topics: Sequence[str] | None = None if self._topic is None else Repeated(self._topic, batch.num_rows)
        if self._is_json:
            return OutgoingColumns(topics or (), json_rows(batch))
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        return OutgoingColumns(
            topics or topic_names(columns["topic"]),
            _bytes(columns["value"]),
            keys=_bytes(columns["key"]) if "key" in columns else None,
            partitions=columns["partition"].to_pylist() if "partition" in columns else None,
            timestamps=_times_ms(columns["timestamp"]) if "timestamp" in columns else None,
            headers=_headers(columns["headers"]) if "headers" in columns else None,
        )


def check_types(types: dict[str, str]) -> None:
    """Check Spark's types (column -> simple name) of a frame with `value`. Raises ConfigError."""
    if "value" not in types:
        return
    for name, allowed in _ALLOWED.items():
        if name in types and types[name] not in allowed:
            raise ConfigError(f"column {name} is {types[name]}: it must be {' or '.join(allowed)}")


def _bytes(column: Any) -> Sequence[bytes | None]:
    """Return bytes or text as bytes, without copying unless the column has 64-bit offsets."""
    import pyarrow as pa

    if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
        values: list[bytes | None] = column.cast(pa.large_binary()).to_pylist()
        return values
    return BinaryColumn(column.cast(pa.binary()))


def topic_names(column: Any) -> list[str]:
    """Return the names in the column `topic`. Raises ConfigError for a row without one."""
    if column.null_count:
        raise ConfigError("column topic has rows without a topic: fill it, or set option topic")
    names: list[str] = column.to_pylist()
    return names


def _times_ms(column: Any) -> list[int | None]:
    """Return Spark's timestamps, which have microseconds, as milliseconds since 1970."""
    import pyarrow as pa

    times: list[int | None] = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    return times


def _headers(column: Any) -> list[list[HeaderBytes]]:
    return [[(header["key"], header["value"]) for header in row or ()] for row in column.to_pylist()]
