"""Batches of values with schemas in a registry become columns; what cannot be read is named, and costs no other."""

import json
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from fencepost.api import RecordError, UnavailableError
from fencepost.builtin.converter.registry.wire import VALUE_HEADER, SchemaKey, guid_header
from fencepost.config import ConfigError
from fencepost.kafka.read.record_columns import schema
from fencepost.spark.row.kafka_columns import MISFIT_REASON, PARSED, READ
from fencepost.spark.row.registry import ReaderSchema, common_columns, of_option, to_option
from fencepost.spark.row.registry_columns import RegistryColumns
from support.avro_values import framed

GUIDS = [UUID(int=number) for number in range(6)]
_NAME = {"name": "name", "type": "string"}
_FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}, _NAME]}
_SECOND = {
    "type": "record", "name": "Order",
    "fields": [{"name": "id", "type": "long"}, _NAME, {"name": "at", "type": ["null", "double"], "default": None}],
}  # fmt: skip
_WRONG = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}, _NAME]}


class _Registry:
    def __init__(self, **schemas: Any) -> None:
        self.asked: list[int] = []
        self._schemas = {int(name[1:]): schema for name, schema in schemas.items()}

    def by_key(self, key: SchemaKey) -> ReaderSchema:
        id_ = GUIDS.index(key.guid) if key.id is None else key.id
        self.asked.append(id_)
        if id_ not in self._schemas:
            raise RecordError(f"there is no schema with {key}")
        return _reader(id_, self._schemas[id_])


def _reader(id_: int, schema: Any) -> ReaderSchema:
    return ReaderSchema(id_, "AVRO", json.dumps(schema))


def _value(id_: int, schema: Any, **fields: Any) -> bytes:
    return framed(id_, schema, fields)


def _columns(registry: _Registry, reader: ReaderSchema, *, keeps_read: bool = False) -> RegistryColumns:
    type_ = to_arrow_type(common_columns({"t": reader}), timezone="UTC")
    return RegistryColumns(reader, registry.by_key, type_, keeps_read=keeps_read)


def _headers(*rows: list[tuple[str, bytes | None]] | None) -> pa.Array:
    return pa.array(
        [None if row is None else [{"key": name, "value": value} for name, value in row] for row in rows],
        schema(["headers"]).field("headers").type,
    )


def _structs(
    columns: RegistryColumns, values: list[bytes | None], headers: pa.Array | None = None
) -> tuple[list[Any], list[str | None]]:
    found, reasons = columns.structs(
        pa.array(values, pa.binary()), _headers(*[None] * len(values)) if headers is None else headers
    )
    found.validate(full=True)
    return found.to_pylist(), reasons.to_pylist()


def test_values_of_older_schemas_have_the_readers_columns() -> None:
    registry = _Registry(_1=_FIRST)
    columns = _columns(registry, _reader(2, _SECOND))
    values = [_value(2, _SECOND, id=1 << 40, name="a", at=0.5), _value(1, _FIRST, id=7, name="b"), None]
    assert _structs(columns, [*values, values[1]]) == (
        [{"id": 1 << 40, "name": "a", "at": 0.5}, {"id": 7, "name": "b", "at": None}, None,
         {"id": 7, "name": "b", "at": None}],
        [None] * 4,
    )  # fmt: skip
    _structs(columns, values)
    assert registry.asked == [1]


def test_unreadable_values_are_named() -> None:
    columns = _columns(_Registry(_1=_FIRST, _3=_WRONG), _reader(2, _SECOND))
    right = _value(2, _SECOND, id=1, name="a", at=None)
    wrong = [b"", b"{}", b"\0\0\0\0", _value(3, _WRONG, id="x", name="c"), _value(9, _FIRST, id=1, name="d"), right[:6]]
    found, reasons = _structs(columns, [right, *wrong, right])
    assert [row is None for row in found] == [False, *[True] * 6, False]
    assert reasons == [
        None,
        "it begins with 0x, not with 0 and the id of a schema in the registry",
        "it begins with 0x7b7d, not with 0 and the id of a schema in the registry",
        "it begins with 0x00000000, not with 0 and the id of a schema in the registry",
        "its schema, id 3, cannot be read with id 2, which defines the columns: id: string cannot be read as long",
        "there is no schema with id 9",
        "name: the value ends too early",
        None,
    ]


def test_a_schema_of_another_kind_does_not_fit() -> None:
    class Json(_Registry):
        def by_key(self, key: SchemaKey) -> ReaderSchema:
            return ReaderSchema(key.id or 0, "JSON", "{}")

    _, reasons = _structs(_columns(Json(), _reader(2, _SECOND)), [b"\0\0\0\0\5{}"])
    assert reasons == [
        "its schema, id 5, cannot be read with id 2, which defines the columns: it is JSON, not AVRO"
    ]  # fmt: skip


def test_values_are_not_dropped_while_the_registry_is_away() -> None:
    class Away(_Registry):
        def by_key(self, key: SchemaKey) -> ReaderSchema:
            raise UnavailableError("it is away")

    with pytest.raises(UnavailableError):
        _structs(_columns(Away(), _reader(2, _SECOND)), [_value(1, _FIRST, id=7, name="b")])


def test_schema_header_wins_over_the_first_bytes_of_the_payload() -> None:
    zeros = {"type": "record", "name": "N", "fields": [{"name": name, "type": "int"} for name in "abcdef"]}
    columns = _columns(registry := _Registry(_1=zeros, _4=zeros), _reader(2, zeros))
    row = dict.fromkeys("abcdef", 0) | {"e": -1}  # its payload begins with 0 and an id, 1
    payload = _value(2, zeros, **row)[5:]
    guid, id_, other = guid_header(GUIDS[4]), b"\0\0\0\0\2", ("trace", b"7")
    headers = _headers(
        [other, (VALUE_HEADER, guid)], None, [(VALUE_HEADER, b"?"), (VALUE_HEADER, id_)], [other],
        [(VALUE_HEADER, guid)], [(VALUE_HEADER, b"?")], [(VALUE_HEADER, guid_header(GUIDS[5]))], [(VALUE_HEADER, None)],
    )  # fmt: skip
    plain = _value(2, zeros, **row)
    values = [payload, plain, payload, plain, None, payload, payload, plain]
    found, reasons = _structs(columns, values, headers)
    assert found == [row, row, row, row, None, None, None, row]
    assert [reason is None for reason in reasons] == [True, True, True, True, True, False, False, True]
    assert "the header with the schema's id does not begin with the id of a schema" in str(reasons[5])
    assert reasons[6] == f"there is no schema with GUID {GUIDS[5]}"
    assert registry.asked == [4, 5]


@pytest.mark.parametrize("keeps_read", [False, True])
def test_values_of_a_batch_are_replaced_by_columns(keeps_read: bool) -> None:
    columns = _columns(_Registry(), _reader(2, _SECOND), keeps_read=keeps_read)
    values = [_value(2, _SECOND, id=1, name="a", at=None), b"bad", None]
    batch = pa.RecordBatch.from_pydict(
        {"value": pa.array(values), "offset": pa.array([4, 5, 6]), "headers": _headers(None, [("a", b"b")], None)}
    )
    made = columns.made(batch, ["value", "offset"])
    assert made.schema.names == ["value", "offset", MISFIT_REASON, *[READ] * keeps_read, PARSED]
    assert made["value"].null_count == 3
    assert [row and row["id"] for row in made[PARSED].to_pylist()] == [1, None, None]
    assert [bool(reason) for reason in made[MISFIT_REASON].to_pylist()] == [False, True, False]
    assert not keeps_read or made[READ].to_pylist() == values


def test_avro_value_that_is_not_a_record_becomes_one_column() -> None:
    columns = _columns(_Registry(), ReaderSchema(1, "AVRO", '["null", "string"]'))
    assert _structs(columns, [b"\0\0\0\0\1\x02\x02a", b"\0\0\0\0\1\x00", None]) == (
        [{"value": "a"}, {"value": None}, None], [None] * 3,
    )  # fmt: skip


def test_schemas_survive_the_round_trip_through_an_option() -> None:
    schemas = {"t": ReaderSchema(1, "AVRO", '"string"', (("n", "{}"),), {"k": "v"}), "u": _reader(2, _SECOND)}
    found = of_option(to_option(schemas))
    assert to_option(found) == to_option(schemas)
    assert found["t"].written() == schemas["t"].written()


def test_topics_with_different_columns_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"a and b have different columns: .*value\.schema\.subject"):
        common_columns({"a": _reader(1, _FIRST), "b": _reader(2, _SECOND)})
    assert common_columns({"a": _reader(1, _FIRST), "b": _reader(3, _FIRST)}).names == ["id", "name"]


def test_every_column_type_is_accepted_by_spark() -> None:
    """Spark compares the schema of the first batch with the type that it was told."""
    types = ["int", "date", "time-millis", "time-micros", "timestamp-millis", "local-timestamp-micros", "decimal"]
    fields: list[Any] = [
        {"name": f"f{n}", "type": {"type": "int" if t in ("int", "date", "time-millis") else "long", "logicalType": t}}
        for n, t in enumerate(types[:-1])
    ]
    fields += [
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "a", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "double"}}},
        {"name": "r", "type": ["null", _FIRST, "boolean"]},
        {"name": "n", "type": "null"},
        {"name": "x", "type": {"type": "fixed", "name": "X", "size": 3}},
    ]
    reader = ReaderSchema(1, "AVRO", json.dumps({"type": "record", "name": "R", "fields": fields}))
    assert to_arrow_type(reader.columns(), timezone="UTC") == reader.arrow_type()
