"""Values that a change does not have: large ones that it did not touch, for which Debezium writes a placeholder."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fencepost.api import SchemaType
from fencepost.builtin.postgres.envelope import unavailable
from fencepost.builtin.postgres.envelope.compound import pairs_json
from fencepost.builtin.postgres.sink.changes import Changes

Placeholders = Mapping[SchemaType | None, Sequence[Any]]


def placeholders(text: str) -> Placeholders:
    """Return what Debezium writes for `text`, its `unavailable.value.placeholder`, by the type of the field.

    An array has it as its only element; one of integers has its bytes, one of UUIDs a UUID made of it. None is the type
    of a field without a schema.
    """
    raw = unavailable.placeholder(text)
    pairs, own = unavailable.as_pairs(raw), unavailable.as_text(raw)
    return {
        None: (own,),
        SchemaType.STRING: (own, pairs_json(pairs)),
        SchemaType.BYTES: (raw,),
        SchemaType.ARRAY: tuple(unavailable.as_items(raw).values()),
        SchemaType.MAP: (pairs,),
    }


def cut(changes: Changes, known: Placeholders) -> Iterator[Changes]:
    """Yield changes in order, in pieces without the columns that all rows of a piece lack: those keep their values."""
    lacking: dict[str, set[int]] = {}
    for column in changes.columns:
        marks = known.get(None if column.schema is None else column.schema.type, ())
        if column.name not in changes.keys and any(mark in column.values for mark in marks):
            lacking[column.name] = {at for at, value in enumerate(column.values) if value in marks}
    if not lacking:
        yield changes
        return
    absent = [frozenset(name for name, rows in lacking.items() if at in rows) for at in range(len(changes))]
    start = 0
    for stop in range(1, len(changes) + 1):
        if stop == len(changes) or absent[stop] != absent[start]:
            piece = changes.part(start, stop)
            yield replace(piece, columns=[each for each in piece.columns if each.name not in absent[start]])
            start = stop
