"""Avro schemas and values for Hypothesis, and what Arrow should hold for a value that fastavro has read."""

import datetime as dt
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
from hypothesis import strategies as st

Json = Any
_INT, _LONG = 1 << 31, 1 << 63
_FIRST, _LAST = dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_FLOATS = st.floats(width=32, allow_nan=False)
_MILLIS = st.datetimes(_FIRST, _LAST).map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
_UTC = dt.UTC

_LEAVES: Mapping[str, tuple[Json, st.SearchStrategy[Any]]] = {
    "boolean": ("boolean", st.booleans()),
    "int": ("int", st.integers(-_INT, _INT - 1)),
    "long": ("long", st.integers(-_LONG, _LONG - 1)),
    "float": ("float", _FLOATS),
    "double": ("double", st.floats(allow_nan=False)),
    "bytes": ("bytes", st.binary(max_size=80)),
    "string": ("string", _TEXT),
    "long text": ("string", st.text("añ€😀", min_size=60, max_size=80)),
    "date": ({"type": "int", "logicalType": "date"}, st.dates()),
    "time-millis": (
        {"type": "int", "logicalType": "time-millis"},
        st.times().map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
    ),
    "time-micros": ({"type": "long", "logicalType": "time-micros"}, st.times()),
    "timestamp-millis": (
        {"type": "long", "logicalType": "timestamp-millis"}, _MILLIS.map(lambda at: at.replace(tzinfo=_UTC)),
    ),
    "timestamp-micros": (
        {"type": "long", "logicalType": "timestamp-micros"},
        st.datetimes(_FIRST, _LAST).map(lambda at: at.replace(tzinfo=_UTC)),
    ),
    "local-timestamp-millis": ({"type": "long", "logicalType": "local-timestamp-millis"}, _MILLIS),
    "local-timestamp-micros": (
        {"type": "long", "logicalType": "local-timestamp-micros"}, st.datetimes(_FIRST, _LAST),
    ),
    "uuid": ({"type": "string", "logicalType": "uuid"}, st.uuids()),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 5},
        st.integers(1 - 10**38, 10**38 - 1).map(lambda n: Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -5))),
    ),
    "small decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
        st.integers(-9999, 9999).map(lambda n: Decimal(n).scaleb(-2)),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Written:
    """A schema, and values for it."""

    schema: Json
    values: Sequence[Any]

    def encoded(self) -> list[bytes]:
        return [encoded(self.schema, value) for value in self.values]


def encoded(schema: Json, value: Any) -> bytes:
    """Return a value as fastavro writes it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def framed(id_: int, schema: Json, value: Any) -> bytes:
    """Return a value as a serializer with a registry writes it: after the id of its schema."""
    return b"\0" + id_.to_bytes(4, "big") + encoded(schema, value)


def read(writer: Json, data: bytes, reader: Json | None = None) -> Any:
    """Return a value as fastavro reads it."""
    own = None if reader is None else fastavro.parse_schema(reader)
    return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(writer), own)


@st.composite
def written(draw: st.DrawFn, depth: int = 3, most: int = 12) -> Written:
    """Return a record's schema with values."""
    schema, values = draw(_records(depth, _Names()))
    return Written(schema, draw(st.lists(values, min_size=1, max_size=most)))


class _Names:
    """Gives each named type a name of its own."""

    def __init__(self) -> None:
        self._count = 0

    def next(self) -> str:
        self._count += 1
        return f"T{self._count}"


@st.composite
def _records(draw: st.DrawFn, depth: int, names: _Names) -> tuple[Json, st.SearchStrategy[Any]]:
    name, count = names.next(), draw(st.integers(1, 5))
    fields = [draw(types(depth - 1, names)) for _ in range(count)]
    schema = {
        "type": "record", "name": name, "fields": [{"name": f"f{i}", "type": s} for i, (s, _) in enumerate(fields)],
    }  # fmt: skip
    return schema, st.fixed_dictionaries({f"f{i}": values for i, (_, values) in enumerate(fields)})


@st.composite
def types(draw: st.DrawFn, depth: int, names: _Names) -> tuple[Json, st.SearchStrategy[Any]]:
    """Return a schema, and a strategy of its values."""
    kinds = ["leaf"] * 4 + ["optional", "enum", "fixed"] + ["array", "map", "record", "choice"] * (depth > 0)
    kind = draw(st.sampled_from(kinds))
    if kind == "record":
        return draw(_records(depth, names))
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCDEFG"), min_size=1, unique=True))
        return {"type": "enum", "name": names.next(), "symbols": symbols}, st.sampled_from(symbols)
    if kind == "fixed":
        size = draw(st.integers(1, 17))
        return {"type": "fixed", "name": names.next(), "size": size}, st.binary(min_size=size, max_size=size)
    if kind == "leaf":
        return _LEAVES[draw(st.sampled_from(sorted(_LEAVES)))]
    if kind == "choice":
        record, values = draw(_records(depth - 1, names))
        branches = draw(st.permutations(["null", "long", "string", "double", record]))
        own = st.one_of(st.none(), _LEAVES["long"][1], _LEAVES["string"][1], _LEAVES["double"][1], values)
        return branches, own
    schema, values = draw(types(depth - 1, names))
    if kind == "array":
        return {"type": "array", "items": schema}, st.lists(values, max_size=5)
    if kind == "map":
        return {"type": "map", "values": schema}, st.dictionaries(_TEXT, values, max_size=4)
    if isinstance(schema, list):
        return schema, values
    return draw(st.permutations(["null", schema])), st.none() | values


def expected(schema: Json, value: Any) -> Any:
    """Return what Arrow should return for a value that fastavro has read."""
    if isinstance(schema, list):
        return _of_union(schema, value)
    kind = schema["type"] if isinstance(schema, dict) else schema
    if value is None:
        return None
    if kind == "record":
        return {field["name"]: expected(field["type"], value[field["name"]]) for field in schema["fields"]}
    if kind == "array":
        return [expected(schema["items"], each) for each in value]
    if kind == "map":
        return [(key, expected(schema["values"], each)) for key, each in value.items()]
    return str(value) if isinstance(value, UUID) else value


def _of_union(schema: Sequence[Json], value: Any) -> Any:
    some = [branch for branch in schema if branch != "null"]
    if value is None or len(some) == 1:
        return None if value is None else expected(some[0], value)
    kinds = {int: "long", str: "string", float: "double"}
    names = {(b["name"] if isinstance(b, dict) else b): b for b in some}
    chosen = kinds.get(type(value)) or next(name for name, b in names.items() if isinstance(b, dict))
    return {name: expected(branch, value) if name == chosen else None for name, branch in names.items()}
