"""The columns of a batch that authors give as rows: offsets, keys, timestamps and headers, each from fields of the row.

A mistake is a TypeError or ValueError that names the argument, the row and what to write instead.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

from fencepost.record.java_time import milliseconds
from fencepost.record.record import Header
from fencepost.record.schema import Schema

Offset = Mapping[str, Any]
OffsetOfRow = str | Callable[[Any], Offset]


def checked_rows(rows: Iterable[Any]) -> Sequence[Any]:
    """Return rows as mappings; dataclass instances become dicts."""
    if isinstance(rows, Mapping | str | bytes):
        raise TypeError(f"Batch.of_rows takes a list of rows, not a single {type(rows).__name__}: write [row]")
    listed = rows if isinstance(rows, Sequence) else list(rows)
    if len(listed) and is_dataclass(listed[0]):
        return [asdict(row) for row in listed]
    return listed


def checked_partition(partition: Any) -> Mapping[str, Any]:
    if not isinstance(partition, Mapping):
        raise TypeError(f"source_partition={partition!r} is not a mapping; write {{'name': {partition!r}}}")
    return partition


def offsets(rows: Sequence[Any], offset: OffsetOfRow | None) -> list[Offset]:
    """Return the source offset of each row: the value of a field, by the field's name, or what a function returns."""
    if offset is None:
        raise TypeError(
            "Batch.of_rows needs offset=: the field of a row from which `start` can continue after the row, or a "
            "function of the row that returns the offset"
        )
    if isinstance(offset, str):
        return [{offset: value} for value in column(rows, "offset", offset)]
    found = [offset(row) for row in rows]
    for number, one in enumerate(found):
        if not isinstance(one, Mapping):
            raise TypeError(
                f"the function offset= returned {one!r} for row {number}: return a mapping, such as {{'at': {one!r}}}, "
                "or name the field: offset='at'"
            )
    return found


def column(rows: Sequence[Any], argument: str, field: str) -> list[Any]:
    """Return a field of all rows."""
    try:
        return [row[field] for row in rows]
    except (KeyError, TypeError, IndexError):
        raise _missing(rows, argument, field) from None


def key_schema(value_schema: Schema | None, field: str | None) -> Schema | None:
    """Return the schema of the field that is the key; None without a schema."""
    found = None if value_schema is None or field is None else value_schema.field(field)
    return None if found is None else found.schema


def timestamps(rows: Sequence[Any], field: str) -> list[int | None]:
    """Return a field of all rows as milliseconds since 1970; it may hold those, or a datetime (UTC if it is naive)."""
    return [_milliseconds(value, number, field) for number, value in enumerate(column(rows, "timestamp", field))]


def headers(rows: Sequence[Any], of_row: Callable[[Any], Mapping[str, Any]]) -> list[tuple[Header, ...]]:
    """Return the headers of each row from a function that returns them by name."""
    found = [of_row(row) for row in rows]
    for number, one in enumerate(found):
        if not isinstance(one, Mapping):
            raise TypeError(f"the function headers= returned {one!r} for row {number}: return a mapping of names")
    return [tuple(Header(name, value) for name, value in one.items()) for one in found]


def _milliseconds(value: Any, number: int, field: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, dt.datetime):
        return milliseconds(value)
    raise TypeError(
        f"row {number}: timestamp={field!r} names {value!r}, which is neither a datetime nor a whole number of "
        "milliseconds since 1970"
    )


def _missing(rows: Sequence[Any], argument: str, field: str) -> Exception:
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            return TypeError(f"row {number} is {row!r}: a row is a mapping of names to values, or a dataclass instance")
        if field not in row:
            known = ", ".join(map(str, row))
            return ValueError(f"row {number} has no field {field!r}, which {argument}= names; it has: {known}")
    return ValueError(f"rows have no field {field!r}, which {argument}= names")
