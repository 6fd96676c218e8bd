"""Rows of an Arrow batch as JSON objects, column by column: byte for byte what orjson writes for a row.

Arrow writes whole numbers, booleans, dates, times in UTC, and text without characters to escape. orjson writes the
values of any other column, all in one call.
"""

import base64
import datetime
import decimal
import functools
from collections.abc import Sequence
from typing import Any

import orjson

from fencepost.builtin.converter.json_column import dumped_all
from fencepost.record import BinaryColumn
from fencepost.spark.row.json_text import NULL, constant, is_plain, quoted

_FIRST_YEAR, _LAST_YEAR = 1_000, 9_999
_DATE_LENGTH = len("1970-01-01")


def json_rows(batch: Any) -> Sequence[bytes]:
    """Return an object of all columns for each row; values that JSON lacks are written like Spark's `to_json`.

    Raises TypeError for a column type that cannot be written.
    """
    names = batch.schema.names
    if not batch.num_rows or not names or len(set(names)) < len(names):
        return [_dumped(row) for row in batch.to_pylist(maps_as_pydicts="lossy")]
    import pyarrow.compute as pc

    pieces: list[Any] = []
    before = b"{"
    for name, column in zip(names, batch.columns, strict=True):
        pieces += constant(before + orjson.dumps(name) + b":"), _written(column)
        before = b","
    return BinaryColumn(pc.binary_join_element_wise(*pieces, constant(b"}"), constant(b"")))


def _written(column: Any) -> Any:
    """Return the JSON of each value as an Arrow array of bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pc.fill_null(column.cast(pa.string()).cast(pa.binary()), constant(NULL))
    if (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and is_plain(column):
        return quoted(column)
    if pa.types.is_date32(kind) and _has_plain_years(column):
        return quoted(column.cast(pa.string()))
    if kind in _utc_times() and _has_plain_years(times := column.view(_utc_times()[0])):
        return quoted(_iso_times(times), b"" if kind.tz is None else b"+00:00")
    values = column.to_pylist(maps_as_pydicts="lossy")
    written: Sequence[bytes] | None = dumped_all(values, default=_plain)
    return pa.array(list(map(_dumped, values)) if written is None else written, pa.binary())


@functools.cache
def _utc_times() -> tuple[Any, ...]:
    """Return Spark's types of timestamps without a zone, and of those in UTC."""
    import pyarrow as pa

    return tuple(pa.timestamp("us", tz) for tz in (None, "UTC", "Etc/UTC"))


def _has_plain_years(days: Any) -> bool:
    """Return whether all years have four digits; Python writes or refuses the others."""
    import pyarrow.compute as pc

    first, last = (year.as_py() for year in pc.min_max(pc.year(days)).values())
    return first is None or (first >= _FIRST_YEAR and last <= _LAST_YEAR)


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
