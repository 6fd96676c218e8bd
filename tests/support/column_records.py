"""Batches for transforms, as columns and as records, made up by Hypothesis; chains, and the comparison of both ways."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from fencepost.api import ConnectRecord, Header, Record, Schema, SchemaType, SinkRecord, SourceRecord
from fencepost.builtin.transform.chain import Chain, RunStep
from fencepost.record import Batch, RecordColumns, Repeated, StructColumn, TypedColumn, Utf8Column
from fencepost.record.schema import BOOLEAN, BYTES, DATE, FLOAT64, INT32, INT64, STRING, TIME, TIMESTAMP, decimal

NAMES = ("a", "b", "c")
FLOAT32 = Schema(SchemaType.FLOAT32)
INT8 = Schema(SchemaType.INT8)
LIST = Schema(SchemaType.ARRAY, value_schema=INT64)
MAP = Schema(SchemaType.MAP, key_schema=STRING, value_schema=INT64)

_moments = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC))
_texts = st.one_of(
    st.sampled_from(
        ["", "7", "-12", "+3", "007", "1.5", "NaN", "true", "x", "2026-11-26 15:39:45", "٣", "é", "\x7f", "a\nb"]
    ),
    st.integers().map(str),
    _moments.map(lambda at: at.strftime("%Y-%m-%d %H:%M:%S")),
)
_integers = st.one_of(st.integers(-3, 3), st.integers(-(1 << 63), (1 << 63) - 1), st.just(1_764_171_585_123))
_STRUCT = Schema.struct({"n": INT64, "t": STRING.optional()})

KINDS: dict[str, tuple[Schema, st.SearchStrategy[Any]]] = {
    "text": (STRING, _texts),
    "int8": (INT8, st.integers(-128, 127)),
    "int32": (INT32, st.integers(-(1 << 31), (1 << 31) - 1)),
    "int64": (INT64, _integers),
    "double": (FLOAT64, st.floats()),
    "float": (FLOAT32, st.floats(width=32)),
    "boolean": (BOOLEAN, st.booleans()),
    "bytes": (BYTES, st.binary(max_size=3)),
    "timestamp": (TIMESTAMP, _moments),
    "date": (DATE, st.dates()),
    "time": (TIME, st.times()),
    "decimal": (decimal(2), st.decimals(-1000, 1000, places=2)),
    "list": (LIST, st.lists(st.integers(0, 3), max_size=2)),
    "map": (MAP, st.dictionaries(st.sampled_from(("x", "y")), st.integers(0, 3), max_size=2)),
    "struct": (_STRUCT, st.fixed_dictionaries({"n": st.integers(0, 3), "t": st.none() | _texts})),
}
ODD = st.sampled_from([None, "x", 1 << 70, -1, 2.5, True, [], {}, {"n": 1}, {"t": "x", "n": 2}, Decimal("1.50")])


@st.composite
def columns_of(draw: st.DrawFn, count: int, *, is_typed: bool) -> tuple[Schema | None, list[Any]]:
    """Return `count` structs with their schema, or maps without one; or other keys or values."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    fields: dict[str, Schema] = {}
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name in names:
        schema, values = KINDS[draw(st.sampled_from(sorted(KINDS)))]
        has_default, is_optional = draw(st.booleans()), draw(st.booleans())
        default = draw(values) if has_default and draw(st.booleans()) else None
        fields[name] = replace(schema, is_optional=is_optional, default=default)
        column = draw(
            st.lists(values | st.none() if is_optional or has_default else values, min_size=count, max_size=count)
            | values.map(lambda value: [value] * count)
        )
        for row, value in zip(rows, column, strict=True):
            row[name] = value
    return Schema.struct(fields, name=draw(st.sampled_from((None, "R")))) if is_typed else None, list(rows)


@st.composite
def sides(draw: st.DrawFn, count: int) -> TypedColumn:
    """Return keys or values of one schema: mostly structs or maps, sometimes with something odd among them."""
    kind = draw(st.sampled_from(["structs", "structs", "maps", "maps", "nothing", *sorted(KINDS)]))
    if kind == "nothing":
        return TypedColumn(draw(st.sampled_from((None, STRING.optional()))), Repeated(None, count))
    schema: Schema | None
    if kind in KINDS:
        schema, one = KINDS[kind]
        values = draw(st.lists(one, min_size=count, max_size=count))
        schema = draw(st.sampled_from((schema, schema.optional(), None)))
    else:
        schema, values = draw(columns_of(count, is_typed=kind == "structs"))
    if count and draw(st.integers(0, 4)) == 0:
        values[draw(st.integers(0, count - 1))] = draw(ODD)
    if count and draw(st.integers(0, 4)) == 0:
        row = draw(st.integers(0, count - 1))
        if isinstance(values[row], dict):
            values[row] = {**values[row], draw(st.sampled_from(NAMES)): draw(ODD)}
    return TypedColumn(schema, draw(st.sampled_from((_as_they_are, _as_columns)))(values))


def _as_they_are(values: list[Any]) -> Sequence[Any]:
    return values


def _as_columns(values: list[Any]) -> Sequence[Any]:
    """Return structs as columns, texts as UTF-8, and equal values as one."""
    if values and all(type(value) is str for value in values):
        return Utf8Column([value.encode() for value in values])
    structs = StructColumn.of_rows(values)
    if structs is not None:
        return StructColumn({name: _as_columns(list(each)) for name, each in structs.columns.items()}, len(values))
    first = exact(values[0]) if values else None
    return Repeated(values[0], len(values)) if values and all(exact(value) == first for value in values) else values


@st.composite
def batches(draw: st.DrawFn, *, is_sink: bool = False) -> RecordColumns:
    """Return a batch whose columns have all forms that columns have."""
    count = draw(st.integers(1, 5))

    def column(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Sequence[Any]]:
        return st.lists(one, min_size=count, max_size=count) | one.map(lambda value: Repeated(value, count))

    times = st.one_of(st.integers(0, 2_000_000_000_000), st.just(1 << 62))
    header = st.tuples(st.sampled_from(("h", "i")), st.integers(0, 2)).map(lambda pair: Header(*pair))
    headers = st.lists(header, max_size=2).map(tuple)
    return RecordColumns(
        draw(column(st.sampled_from(("t", "drop-1", "u")))),
        draw(sides(count)),
        draw(sides(count)),
        draw(column(st.integers(0, 2)) | column(st.none() | st.integers(0, 2)) | st.just(Repeated(None, count))),
        draw(column(times) | column(st.none() | times) | st.just(Repeated(None, count))),
        draw(column(headers) | st.just(Repeated((), count))),
        range(count),
        list(range(100, 100 + count)) if is_sink else None,
    )


def records_of(batch: RecordColumns) -> list[tuple[int, ConnectRecord]]:
    """Return the records of a batch, each with its row."""
    return [(batch.rows[index], _record(batch, index)) for index in range(len(batch))]


def _record(batch: RecordColumns, index: int) -> ConnectRecord:
    topic, partition = batch.topics[index], batch.kafka_partitions[index]
    rest = (batch.timestamps[index], batch.headers[index])
    value, key = (
        (each.values[index], each.schema) for each in (batch.value, batch.key)
    )  # fmt: skip
    if batch.kafka_offsets is not None:
        return SinkRecord(topic, partition, batch.kafka_offsets[index], *value, *key, *rest)  # type: ignore[arg-type]
    return SourceRecord({}, {"n": batch.rows[index]}, topic, *value, *key, partition, *rest)


class Watched(Chain):
    """A chain that counts the records that come to it one by one."""

    records = 0

    def apply(self, record: Record, *run_step: RunStep) -> Record | None:
        self.records += 1
        return super().apply(record, *run_step)


class OneByOne(Chain):
    """A chain that takes no batch."""

    def apply_batch(self, batch: RecordColumns) -> list[RecordColumns] | None:
        return None


@dataclass(frozen=True)
class Failed:
    """What the transforms of a record raise."""

    error: str


def by_records(chain: Chain, batch: RecordColumns) -> list[tuple[int, Any]]:
    """Return the row and the contents of each record that is left, or that it fails."""
    found: list[tuple[int, Any]] = []
    for row, record in records_of(batch):
        try:
            changed = chain.apply(record)
        except Exception as error:
            found.append((row, Failed(repr(error))))
        else:
            if changed is not None:
                found.append((row, contents(changed)))
    return found


def by_columns(chain: Chain, batch: RecordColumns) -> list[tuple[int, Any]] | None:
    """Return the same by way of columns; None if the batch is refused."""
    try:
        changed = chain.apply_batch(batch)
    except Exception:
        return None
    if changed is None:
        return None
    for each in changed:
        for column in (each.value.values, each.key.values):
            assert exact(list(column)) == exact([column[index] for index in range(len(column))])
    found = [(row, contents(record)) for each in changed for row, record in records_of(each)]
    return sorted(found, key=lambda pair: pair[0])


def contents(record: ConnectRecord) -> Any:
    """Return everything that a transform can change, comparable to the last type and bit."""
    return (
        record.topic,
        record.kafka_partition,
        record.timestamp,
        (record.value_schema, exact(record.value)),
        (record.key_schema, exact(record.key)),
        [(header.key, header.schema, exact(header.value)) for header in record.headers],
    )


def exact(value: Any) -> Any:
    """Return a value in a form in which only equal values of the same types, in the same order, are equal."""
    if isinstance(value, dict):
        return ("dict", [(exact(key), exact(each)) for key, each in value.items()])
    if isinstance(value, list | tuple):
        return (type(value).__name__, [exact(each) for each in value])
    return (type(value).__name__, repr(value))


def batch_of(batch: RecordColumns) -> Batch:
    """Return what a source polls for these records."""
    return Batch(
        batch.topics,
        batch.value.values,
        Repeated({"p": 1}, len(batch)),
        [{"n": row} for row in batch.rows],
        batch.value.schema,
        batch.key.values,
        batch.key.schema,
        batch.kafka_partitions,
        batch.timestamps,
        batch.headers,
    )
