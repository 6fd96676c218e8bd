"""Whole columns through a converter: those of one topic at a time, if its columns depend on the topic."""

from collections.abc import Sequence
from typing import Any, TypeVar

from fencepost.api import Converter
from fencepost.record import BinaryColumn, Repeated, Schema, Utf8Column, distinct

T = TypeVar("T")
Read = tuple[Schema | None, Sequence[Any]]


def column_to_bytes(
    converter: Converter, topics: Sequence[str], schema: Schema | None, values: Sequence[Any]
) -> Sequence[bytes | None] | None:
    """Return the bytes of a column, or None if it must be converted record by record."""
    by_topic = _by_topic(converter, topics)
    if len(by_topic) == 1:
        return by_topic[0][1].from_column(schema, values)
    parts = []
    for indexes, each in by_topic:
        part = each.from_column(schema, _picked(values, indexes))
        if part is None:
            return None
        parts.append((indexes, part))
    return _together(len(values), parts)


def column_to_connect(converter: Converter, topics: Sequence[str], column: Sequence[bytes | None]) -> Read | None:
    """Return the schema and values of a column of bytes, or None if it must be converted record by record.

    This is so, too, if the values of the topics do not share a schema.
    """
    by_topic = _by_topic(converter, topics)
    if len(by_topic) == 1:
        return _read(by_topic[0][1], column)
    parts = []
    for indexes, each in by_topic:
        part = _read(each, _picked(column, indexes))
        if part is None:
            return None
        parts.append((indexes, part))
    schemas = [schema for _, (schema, _) in parts]
    if any(schema != schemas[0] for schema in schemas[1:]):
        return None
    return schemas[0], _together(len(column), [(indexes, values) for indexes, (_, values) in parts])


def _by_topic(converter: Converter, topics: Sequence[str]) -> list[tuple[list[int], Converter]]:
    """Return the converters of the topics, with the places of each one's records; no places if there is only one."""
    names = sorted(distinct(topics))
    found = [converter.for_topic(name) for name in names]
    if all(each is found[0] for each in found[1:]):
        return [([], found[0] if found else converter)]
    return [
        ([index for index, topic in enumerate(topics) if topic == name], each)
        for name, each in zip(names, found, strict=True)
    ]


def _read(converter: Converter, column: Sequence[bytes | None]) -> Read | None:
    """Read a column; one without values at once."""
    count = len(column)
    if not _is_empty(column):
        return converter.to_column(column)
    read = converter.to_column([None])
    return None if read is None else (read[0], Repeated(read[1][0], count))


def _is_empty(column: Sequence[bytes | None]) -> bool:
    if isinstance(column, Repeated):
        return column.value is None
    if isinstance(column, BinaryColumn):
        return column.null_count == len(column)
    return next(iter(column), None) is None and column.count(None) == len(column)


def _picked(column: Sequence[Any], indexes: list[int]) -> Sequence[Any]:
    if isinstance(column, Repeated):
        return Repeated(column.value, len(indexes))
    if isinstance(column, Utf8Column):
        return Utf8Column([column.raw[index] for index in indexes])
    return [column[index] for index in indexes]


def _together(count: int, parts: list[tuple[list[int], Sequence[T]]]) -> list[T]:
    joined: list[Any] = [None] * count
    for indexes, values in parts:
        for index, value in zip(indexes, values, strict=True):
            joined[index] = value
    return joined
