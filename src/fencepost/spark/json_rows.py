"""Rows of an Arrow batch as JSON objects, made column by column and joined: byte for byte what orjson writes of a row.

Whole numbers, booleans, dates, times in UTC and text without anything to escape are written by Arrow; the values of any
other column by orjson, all in one call.
"""

import base64
import datetime
import decimal
import functools
from collections.abc import Sequence
from typing import Any

import orjson

from fencepost.converter.json_column import dumped_all
from fencepost.record import BinaryColumn

_QUOTE, _ESCAPE = b'"', b"\\"
_FIRST_PRINTABLE = 0x20
_FIRST_NOT_ASCII = 0x80
_NULL = b"null"
_FIRST_YEAR, _LAST_YEAR = 1_000, 9_999
_DATE_LENGTH = len("1970-01-01")


def json_rows(batch: Any) -> Sequence[bytes]:
    """Return an object of all columns for each row; what JSON has no word for is written as Spark's `to_json` does.

    Raises TypeError for a type of column that cannot be written.
    """
    names = batch.schema.names
    if not batch.num_rows or not names or len(set(names)) < len(names):
        return [_dumped(row) for row in batch.to_pylist(maps_as_pydicts="lossy")]
    import pyarrow.compute as pc

    pieces: list[Any] = []
    before = b"{"
    for name, column in zip(names, batch.columns, strict=True):
        pieces += _bytes(before + orjson.dumps(name) + b":"), _written(column)
        before = b","
    return BinaryColumn(pc.binary_join_element_wise(*pieces, _bytes(b"}"), _bytes(b"")))


def _written(column: Any) -> Any:
    """Return the JSON of each value as an Arrow array of bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pc.fill_null(column.cast(pa.string()).cast(pa.binary()), _bytes(_NULL))
    if (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and _is_plain(column):
        return _quoted(column)
    if pa.types.is_date32(kind) and _has_plain_years(column):
        return _quoted(column.cast(pa.string()))
    if kind in _utc_times() and _has_plain_years(times := column.view(_utc_times()[0])):
        return _quoted(_iso_times(times), b"" if kind.tz is None else b"+00:00")
    values = column.to_pylist(maps_as_pydicts="lossy")
    written: Sequence[bytes] | None = dumped_all(values, default=_plain)
    return pa.array(list(map(_dumped, values)) if written is None else written, pa.binary())


def _quoted(texts: Any, end: bytes = b"") -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    quoted = pc.binary_join_element_wise(_bytes(_QUOTE), texts.cast(pa.binary()), _bytes(end + _QUOTE), _bytes(b""))
    return pc.fill_null(quoted, _bytes(_NULL))


def _bytes(data: bytes) -> Any:
    """Return a scalar that says its type: Arrow takes 40 µs to find one out."""
    import pyarrow as pa

    return pa.scalar(data, pa.binary())


@functools.cache
def _utc_times() -> tuple[Any, ...]:
    """Return the types of times without a zone, and of those in UTC, as Spark has them."""
    import pyarrow as pa

    return tuple(pa.timestamp("us", tz) for tz in (None, "UTC", "Etc/UTC"))


def _has_plain_years(days: Any) -> bool:
    """Say whether all years have four digits: who reads the others, or refuses them, is Python."""
    import pyarrow.compute as pc

    first, last = (year.as_py() for year in pc.min_max(pc.year(days)).values())
    return first is None or (first >= _FIRST_YEAR and last <= _LAST_YEAR)


def _iso_times(times: Any) -> Any:
    """Return times as orjson writes them: microseconds only where there are some."""
    import pyarrow as pa
    import pyarrow.compute as pc

    seconds = pc.floor_temporal(times, unit="second")
    short = seconds.cast(pa.timestamp("s")).cast(pa.string())
    texts = pc.if_else(pc.equal(seconds, times), short, times.cast(pa.string()))
    return pc.utf8_replace_slice(texts, _DATE_LENGTH, _DATE_LENGTH + 1, "T")


def _is_plain(texts: Any) -> bool:
    """Say whether a column of text is UTF-8 in which JSON escapes nothing: a look at all bytes at once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    _, ends, data = texts.buffers()
    wide = pa.types.is_large_string(texts.type)
    offsets = memoryview(ends).cast("B").cast("q" if wide else "i")
    first, last = offsets[texts.offset], offsets[texts.offset + len(texts)]
    if first == last:
        return True
    low, high = pc.min_max(pa.Array.from_buffers(pa.uint8(), last - first, [None, data], offset=first)).values()
    text = bytes(memoryview(data)[first:last])
    if low.as_py() < _FIRST_PRINTABLE or _QUOTE in text or _ESCAPE in text:
        return False
    return high.as_py() < _FIRST_NOT_ASCII or _is_utf8(texts)


def _is_utf8(texts: Any) -> bool:
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _dumped(value: object) -> bytes:
    return orjson.dumps(value, default=_plain)


def _plain(value: object) -> object:
    """Write what JSON has no word for as Spark's `to_json` does."""
    if isinstance(value, decimal.Decimal):
        return orjson.Fragment(str(value))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")
