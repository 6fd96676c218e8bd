"""Records of changes, as Debezium orders and builds them: envelopes, tombstones, changed keys, truncates."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fencepost.api import Header, Repeated, StructColumn
from fencepost.builtin.postgres.envelope.record import Event
from fencepost.builtin.postgres.envelope.settings import PostgresSettings
from fencepost.builtin.postgres.envelope.shape import TableShape, Text
from fencepost.builtin.postgres.envelope.source_block import Position, SourceBlock
from fencepost.builtin.postgres.envelope.transaction import Messages, OpenTransaction
from fencepost.postgres.pgoutput import UNCHANGED

NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"


class Events:
    """Makes the records of one connector.

    Args:
        now_us: the time at which a record is made, in microseconds since 1970.
    """

    def __init__(self, settings: PostgresSettings, now_us: Callable[[], int]) -> None:
        self._source = SourceBlock(settings)
        self.messages = Messages(settings, self._source, now_us)
        self._skipped = settings.skipped
        self._has_tombstones = settings.tombstones_on_delete
        self._now_us = now_us

    def read(self, shape: TableShape, values: Sequence[Text], position: Position, snapshot: str) -> Event:
        """Return the record of a row of a snapshot."""
        event = self._event(shape, "r", shape.key(values), (None, shape.row(values)), position, None)
        event.value["source"]["snapshot"] = snapshot
        return event

    def read_columns(
        self, shape: TableShape, columns: Sequence[Any], position: Position, marks: Sequence[str]
    ) -> tuple[StructColumn | None, StructColumn]:
        """Return keys and values of many rows of a snapshot, as columns; `marks` is a snapshot mark for each row.

        `columns` has an Arrow array of texts for each column of the table.
        """
        one = self._source(shape.table.schema, shape.table.name, position)
        source = {name: Repeated(value, len(marks)) for name, value in one.items()}
        return self._columns(shape, columns, {**source, "snapshot": marks}, Repeated("r", len(marks)))

    def change_columns(
        self, shape: TableShape, columns: Sequence[Any], positions: Sequence[Position], operations: Sequence[str]
    ) -> tuple[StructColumn | None, StructColumn]:
        """Return keys and values of inserts (`c`), and of updates (`u`) of which the old row is not known, as columns.

        `columns` has an Arrow array of texts for each column of the table.
        """
        source = self._source.columns(shape.table.schema, shape.table.name, positions)
        return self._columns(shape, columns, source, operations)

    def _columns(
        self, shape: TableShape, columns: Sequence[Any], source: dict[str, Sequence[Any]], operations: Sequence[str]
    ) -> tuple[StructColumn | None, StructColumn]:
        count, now = len(operations), self._now_us()
        envelope = {
            "before": Repeated(None, count),
            "after": shape.rows(columns, count),
            "source": StructColumn(source, count),
            "transaction": Repeated(None, count),
            "op": operations,
            "ts_ms": Repeated(now // 1000, count),
            "ts_us": Repeated(now, count),
            "ts_ns": Repeated(now * 1000, count),
        }
        return shape.keys(columns, count), StructColumn(envelope, count)

    def insert(
        self, shape: TableShape, new: Sequence[Text], position: Position, transaction: OpenTransaction | None = None
    ) -> Iterator[Event]:
        """Yield the records of an insert: one, unless inserts are skipped."""
        if "c" not in self._skipped:
            yield self._event(shape, "c", shape.key(new), (None, shape.row(new)), position, transaction)

    def update(
        self,
        shape: TableShape,
        old: Sequence[Text] | None,
        new: Sequence[Text],
        position: Position,
        transaction: OpenTransaction | None = None,
    ) -> Iterator[Event]:
        """Yield the records of an update; of one that changes the key, those of a delete and of an insert.

        `old` is the old row, or its replica identity with None for all else, or None. What is unchanged in `new` and is
        in `old` is taken from there.
        """
        if old is not None and UNCHANGED in new:
            new = [
                kept if value is UNCHANGED and kept is not None else value for value, kept in zip(new, old, strict=True)
            ]
        key, row = shape.key(new), shape.row(new)
        before = None if old is None else shape.row(old)
        old_key = shape.key(old) if old is not None and shape.has_old_key else key
        if old_key == key:
            if "u" not in self._skipped:
                yield self._event(shape, "u", key, (before, row), position, transaction)
            return
        if "d" not in self._skipped:
            new_key = Header(NEW_KEY, key, shape.key_schema)
            yield from self._deletion(shape, old_key, before, position, transaction, (new_key,))
        if "c" not in self._skipped:
            header = Header(OLD_KEY, old_key, shape.key_schema)
            yield self._event(shape, "c", key, (None, row), position, transaction)._replace(headers=(header,))

    def delete(
        self, shape: TableShape, old: Sequence[Text], position: Position, transaction: OpenTransaction | None = None
    ) -> Iterator[Event]:
        """Yield the records of a delete: it and its tombstone."""
        if "d" not in self._skipped:
            yield from self._deletion(shape, shape.key(old), shape.row(old), position, transaction, ())

    def truncate(
        self, shape: TableShape, position: Position, transaction: OpenTransaction | None = None
    ) -> Iterator[Event]:
        """Yield the record of a truncate, which has no key."""
        if "t" not in self._skipped:
            yield self._event(shape, "t", None, (None, None), position, transaction)._replace(key_schema=None)

    def _deletion(
        self,
        shape: TableShape,
        key: Any,
        before: Any,
        position: Position,
        transaction: OpenTransaction | None,
        headers: tuple[Header, ...],
    ) -> Iterator[Event]:
        yield self._event(shape, "d", key, (before, None), position, transaction)._replace(headers=headers)
        if self._has_tombstones and key is not None:
            yield Event(shape.topic, shape.key_schema, key, None, None, headers)

    def _event(
        self,
        shape: TableShape,
        operation: str,
        key: Any,
        images: tuple[Any, Any],
        position: Position,
        transaction: OpenTransaction | None,
    ) -> Event:
        now, schema, table = self._now_us(), shape.table.schema, shape.table.name
        value = {
            "before": images[0],
            "after": images[1],
            "source": self._source(schema, table, position),
            "transaction": None if transaction is None else transaction.block(f"{schema}.{table}", position),
            "op": operation,
            "ts_ms": now // 1000,
            "ts_us": now,
            "ts_ns": now * 1000,
        }
        return Event(shape.topic, shape.key_schema, key, shape.envelope_schema, value)
