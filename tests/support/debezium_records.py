"""What Debezium made of Postgres' types (`tests/oracle/debezium_postgres.py`), and what the envelope makes of them."""

import base64
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.postgres.envelope import (
    Event,
    Events,
    Heartbeats,
    OpenTransaction,
    Position,
    PostgresSettings,
    TableFilter,
    TableShape,
    TransactionRecords,
)
from fencepost.postgres import pgoutput
from fencepost.postgres.catalog import Column, Table
from fencepost.postgres.lsn import parse_lsn
from fencepost.postgres.pgoutput import Begin, Commit, Delete, Insert, Message, Relation, Truncate, Type, Update

RECORDED = Path(__file__).parents[1] / "fixtures" / "debezium-3.6.1" / "postgres.json.gz"
CONVERTER = JsonConverter({})
_CONTEXT = "__debezium.context."  # headers of the runtime's: the name of the connector, the number of its run
_NOW = ("ts_ms", "ts_us", "ts_ns")
DIFFERENT = {
    r"arrays: .*(\[|\.)(bits3?|moods|addresses|positives)\b": "arrays keep all items, and nulls among them",
    r"arrays: value\.payload\.after\.times$": "times in arrays keep their microseconds",
    r"by_index: (record|headers|key\.payload\.id|value\.payload\.(after|op))": "no delete of a key that is not known",
    r"transaction: value\.payload\.(data_collections|event_count)": "nor is it counted",
    r"defaults: .*a_(u005f)?generated\]": "an expression that generates a column is no default",
    r"defaults: .*a_(u005f)?text(\]\.default)?$": "a doubled quote in a default is one quote",
    r"extremes: value\.payload\.after\.(a_(u005f)?date|dates|timestamptzs)": "infinity as in the stream, everywhere",
    r"large: value\.payload\.after\.raw": "the placeholder, in Base64 modes, too",
    r"message: value\.payload\.transaction\.data_collection_order$": "the messages of a transaction are one collection",
    r"numbers: .*a_float4": "4-byte floats as Java 19 and newer print them",
    r"numbers: .*a_numeric_negative": "a negative scale is not 2,046 decimals",
    r"others: value\.payload\.after\.(a_(box|circle|line|path|polygon)|an_lseg)": "geometry as Postgres prints it",
    r"texts: value\.payload\.after\.a_(u005f)?name$": "columns of the type name are streamed",
    r"parameters(!|\.__debezium\.source\.column\.(type|length))": "types and lengths as in the stream, everywhere",
}
"""What differs from Debezium, by path, and why (decision 0120)."""


def recorded() -> dict[str, Any]:
    """Return what was recorded, by the name of the settings."""
    found = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return {one["mode"]: one["answer"] for one in found}


@dataclass(frozen=True)
class Pair:
    """Two records of one row or change as JSON: Debezium's, and ours (None: there is none)."""

    what: str
    expected: dict[str, Any] | None
    found: dict[str, Any] | None


class Replay:
    """Debezium's records of one set of settings, each with what the envelope makes of the same input."""

    def __init__(self, recorded: Mapping[str, Any]) -> None:
        self._recorded = recorded
        self.settings = PostgresSettings(recorded["config"])
        self._is_captured = TableFilter(self.settings)
        self._events = Events(self.settings, lambda: 0)
        self._transactions = TransactionRecords(self.settings)
        self._shapes: dict[int, TableShape | None] = {}

    @cached_property
    def tables(self) -> list[Table]:
        return [_table(one) for one in self._recorded["catalog"]]

    def snapshot(self) -> Iterator[Pair]:
        """Yield the rows of the snapshot."""
        expected = [one for one in self._recorded["snapshot"] if _operation(one) == "r"]
        yield from _pairs("snapshot", expected, list(self._read(expected)))

    def heartbeats(self) -> Iterator[Pair]:
        """Yield the heartbeats while the log was read."""
        for one in self._recorded["streamed"]:
            if "heartbeat" in one["topic"]:
                beat = Heartbeats(self.settings).beat(json.loads(one["value"])["payload"]["ts_ms"])
                yield from _pairs("heartbeat", [one], [beat])

    def snapshot_columns(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of each table as JSON, made one by one and as columns: of all rows, and of each alone."""
        for table in self.tables:
            rows = self._recorded["rows"][f"{table.schema}.{table.name}"]
            for part in [rows, *([row] for row in rows)] if rows else []:
                yield from self._as_columns(TableShape(table, self.settings), part)

    def _as_columns(self, shape: TableShape, rows: list[list[str | None]]) -> Iterator[tuple[bytes, bytes]]:
        position = Position(7, None, 5, 1_700_000_000_123_456)
        one_by_one = [self._events.read(shape, row, position, "true") for row in rows]
        columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
        keys, values = self._events.read_columns(shape, columns, position, ["true"] * len(rows))
        written = CONVERTER.from_column(shape.envelope_schema, values)
        if written is None:
            assert any("\x7f" in (text or "") for row in rows for text in row), (
                "only this character keeps columns from being written together"
            )
            return
        yield from zip([_bytes(one) for one in one_by_one], written, strict=True)
        assert [one.key for one in one_by_one] == (list(keys) if keys is not None else [None] * len(rows))

    def stream(self) -> Iterator[Pair]:
        """Yield the changes, by their positions in the log."""
        expected: dict[int, list[Any]] = {}
        for one in self._recorded["streamed"]:
            if "heartbeat" not in one["topic"]:
                expected.setdefault(one["offset"]["lsn"], []).append(one)
        found: dict[int, list[Event]] = {}
        for position, event in self._changes():
            found.setdefault(position, []).append(event)
        for position in sorted({*expected, *found}):
            yield from _pairs(f"change at {position}", expected.get(position, []), found.get(position, []))

    def _read(self, expected: Sequence[Any]) -> Iterator[Event]:
        sources = (json.loads(one["value"])["payload"]["source"] for one in expected)
        captured = [one for one in self.tables if self._is_captured(one.schema, one.name)]
        for table in sorted(captured, key=lambda one: f"{one.schema}.{one.name}"):
            shape = TableShape(table, self.settings)
            for row in self._recorded["rows"][f"{table.schema}.{table.name}"]:
                source = next(sources)
                position = Position(source["lsn"], None, source["txId"], source["ts_us"])
                yield self._events.read(shape, row, position, source["snapshot"])

    def _changes(self) -> Iterator[tuple[int, Event]]:
        last_commit: int | None = None
        transaction: OpenTransaction | None = None
        begin = Begin(0, 0, 0)
        for lsn, payload in self._recorded["messages"]:
            message, at = pgoutput.decode(base64.b64decode(payload)), parse_lsn(lsn)
            position = Position(at, last_commit, begin.xid, begin.commit_time_us)
            match message:
                case Begin():
                    begin = message
                    if self.settings.provide_transaction_metadata:
                        transaction = OpenTransaction()
                        yield at, self._transactions.begin(Position(at, None, begin.xid, begin.commit_time_us))
                case Commit():
                    last_commit = at
                    if transaction is not None:
                        yield at, self._transactions.end(position, transaction)
                case Relation():
                    self._shapes[message.oid] = self._shape(message)
                case Insert() | Update() | Delete() | Truncate():
                    yield from ((at, event) for event in self._of_change(message, position, transaction))
                case Message() if message.transactional:
                    yield from ((at, one) for one in self._events.messages.records(message, position, transaction))
                case Message():
                    last_commit = at
                    position = Position(at, at, None, begin.commit_time_us)
                    yield from ((at, one) for one in self._events.messages.records(message, position))
                case _:
                    assert isinstance(message, Type), message

    def _of_change(
        self, message: Insert | Update | Delete | Truncate, position: Position, transaction: OpenTransaction | None
    ) -> Iterator[Event]:
        for oid in message.oids if isinstance(message, Truncate) else [message.oid]:
            shape = self._shapes[oid]
            match message:
                case _ if shape is None:
                    pass
                case Insert():
                    yield from self._events.insert(shape, message.new, position, transaction)
                case Update():
                    yield from self._events.update(shape, message.old, message.new, position, transaction)
                case Delete():
                    yield from self._events.delete(shape, message.old, position, transaction)
                case Truncate():
                    yield from self._events.truncate(shape, position, transaction)

    def _shape(self, relation: Relation) -> TableShape | None:
        """Return the shape of a table as it was: columns of the relation, with what the catalogs say about them."""
        if not self._is_captured(relation.schema, relation.table):
            return None
        catalogs = (self._recorded["catalog_after"], self._recorded["catalog"])
        known = [_table(one) for catalog in catalogs for one in catalog if one["oid"] == relation.oid]
        columns = {column.name: column for table in known for column in table.columns}
        as_it_was = tuple(replace(columns[one.name], type_modifier=one.type_modifier) for one in relation.columns)
        return TableShape(replace(known[0], columns=as_it_was), self.settings)


def _table(given: Mapping[str, Any]) -> Table:
    columns = tuple(Column(**one | {"enum_values": tuple(one["enum_values"])}) for one in given["columns"])
    lists = {name: tuple(given[name]) for name in ("key", "identity_key")}
    unique = tuple(tuple(one) for one in given["unique_keys"])
    return Table(**{**given, "columns": columns, "unique_keys": unique, **lists})


def _operation(record: Mapping[str, Any]) -> str | None:
    payload = json.loads(record["value"])["payload"] if record["value"] else {}
    return payload.get("op")


def _pairs(what: str, expected: Sequence[Any], found: Sequence[Event]) -> Iterator[Pair]:
    for one, event in zip_longest(expected, found):
        yield Pair(what, None if one is None else _theirs(one), None if event is None else _ours(event))


def _theirs(record: Mapping[str, Any]) -> dict[str, Any]:
    headers = [[name, _json(text)] for name, text in record["headers"] if not name.startswith(_CONTEXT)]
    topic, key, value = record["topic"], _json(record["key"]), _timeless(_json(record["value"]))
    return {"topic": topic, "key": key, "value": value, "headers": headers}


def _ours(event: Event) -> dict[str, Any]:
    key = CONVERTER.from_connect_data(event.topic, event.key_schema, event.key) if event.key is not None else None
    value = _bytes(event) if event.value_schema is not None else None
    headers = [[one.key, _json(CONVERTER.from_connect_data("", one.schema, one.value))] for one in event.headers]
    return {"topic": event.topic, "key": _json(key), "value": _timeless(_json(value)), "headers": headers}


def _bytes(event: Event) -> bytes:
    written = CONVERTER.from_connect_data(event.topic, event.value_schema, event.value)
    assert written is not None
    return written


def _json(text: str | bytes | None) -> Any:
    """Return JSON in which the order of members matters: an object is a tuple of pairs."""
    return None if text is None else json.loads(text, object_pairs_hook=tuple)


def _timeless(value: Any) -> Any:
    """Return an envelope without the times at which it was made."""
    if value is None or len(value) != 2:
        return value
    (schema, payload) = value
    is_envelope = any(name == "op" for name, _ in payload[1])
    kept = tuple(pair for pair in payload[1] if not (is_envelope and pair[0] in _NOW))
    return (schema, (payload[0], kept))


def unexpected(pairs: Iterator[Pair]) -> tuple[list[str], frozenset[str]]:
    """Compare records. Returns what differs beyond DIFFERENT, each path once, and which of its entries were found."""
    unknown: dict[str, str] = {}
    used: set[str] = set()
    count = 0
    for pair in pairs:
        count += 1
        for path, theirs, ours in _parts(pair):
            known = {one for one in DIFFERENT if re.search(one, path)}
            used |= known
            if not known:
                unknown.setdefault(path, f"{path}: Debezium {str(theirs)[:150]}, here {str(ours)[:150]} ({pair.what})")
    assert count > 20
    return sorted(unknown.values()), frozenset(used)


def _parts(pair: Pair) -> Iterator[tuple[str, Any, Any]]:
    if pair.expected is None or pair.found is None:
        yield f"{(pair.expected or pair.found or {})['topic']}: record", pair.expected, pair.found
        return
    for part in ("topic", "key", "value", "headers"):
        for path, theirs, ours in _differences("", pair.expected[part], pair.found[part]):
            yield f"{pair.expected['topic']}: {part}{path}", theirs, ours


def _differences(path: str, expected: Any, found: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the innermost parts that differ, with their paths: members by name, fields of schemas by theirs."""
    if _is_object(expected) and _is_object(found):
        names = [name for name, _ in expected], [name for name, _ in found]
        if names[0] != names[1]:
            yield f"{path}!", *names
        theirs, ours = dict(expected), dict(found)
        for name in theirs.keys() & ours.keys():
            yield from _differences(f"{path}.{name}", theirs[name], ours[name])
    elif path.endswith(".fields") and isinstance(found, list):
        named = [{dict(field)["field"]: field for field in fields} for fields in (expected, found)]
        if list(named[0]) != list(named[1]):
            yield f"{path}!", list(named[0]), list(named[1])
        for name in named[0].keys() & named[1].keys():
            yield from _differences(f"{path}[{name}]", named[0][name], named[1][name])
    elif expected != found or type(expected) is not type(found):
        yield path, expected, found


def _is_object(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(pair, tuple) for pair in value)
