"""Values of JSON Schema and Protobuf become columns by way of Connect's schemas."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from fencepost.api import RecordError, Schema, SchemaError, SchemaType
from fencepost.builtin.converter.registry.format import Format, Written
from fencepost.builtin.converter.registry.json_schema.converter import JsonSchemaFormat
from fencepost.builtin.converter.registry.protobuf.converter import ProtobufFormat
from fencepost.builtin.converter.registry.wire import VALUE_HEADER, SchemaKey
from fencepost.kafka.read.record_columns import schema
from fencepost.record.schema import BOOLEAN, BYTES, DATE, FLOAT64, INT32, INT64, STRING, TIMESTAMP, arrow_type, decimal
from fencepost.spark.row.registry import ReaderSchema, common_columns
from fencepost.spark.row.registry_columns import RegistryColumns

FORMATS = {
    "JSON": JsonSchemaFormat({}),
    "PROTOBUF": ProtobufFormat({"optional.for.nullables": "true"}),
}
MAPPING = {"PROTOBUF": {"optional.for.nullables": "true"}, "JSON": {}}
FIRST = Schema.struct({"id": INT64, "name": STRING.optional()}, name="Order")
SECOND = Schema.struct(
    {
        "id": INT64, "name": STRING.optional(), "count": INT32.optional(), "ratio": FLOAT64.optional(),
        "is_paid": BOOLEAN.optional(), "data": BYTES.optional(), "day": DATE.optional(), "at": TIMESTAMP.optional(),
        "price": decimal(2).optional(),
        "tags": Schema(SchemaType.ARRAY, value_schema=STRING),
        "marks": Schema(SchemaType.MAP, key_schema=STRING, value_schema=FLOAT64),
        "buyer": Schema.struct({"age": INT32.optional()}, name="Buyer", is_optional=True),
    },
    name="Order",
)  # fmt: skip
ROW = {
    "id": 1 << 40, "name": "é", "count": -5, "ratio": 0.5, "is_paid": True, "data": b"\x00\xff",
    "day": dt.date(2026, 2, 28), "at": dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, dt.UTC), "price": Decimal("12.34"),
    "tags": ["a", "b"], "marks": {"x": 1.5}, "buyer": {"age": 7},
}  # fmt: skip


@pytest.fixture(params=sorted(FORMATS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _value(id_: int, format_: Format, schema: Schema, row: Any) -> bytes:
    writer = format_.written(schema).writer
    return writer.encode_all([row], b"\0" + id_.to_bytes(4, "big") + writer.lead)[0]


def _reader(id_: int, kind: str, written: Written) -> ReaderSchema:
    return ReaderSchema(id_, kind, written.schema.text, (), MAPPING[kind])


def _columns(kind: str) -> RegistryColumns:
    format_ = FORMATS[kind]
    schemas = {
        1: _reader(1, kind, format_.written(FIRST)),
        2: _reader(2, kind, format_.written(SECOND)),
        3: _reader(3, kind, format_.written(Schema.struct({"id": STRING}, name="Order"))),
        4: _reader(4, kind, format_.written(Schema.struct({"other": INT32}, name="Other"))),
    }

    def by_key(key: SchemaKey) -> ReaderSchema:
        if key.id not in schemas:
            raise RecordError("there is none")
        return schemas[key.id]

    return RegistryColumns(schemas[2], by_key, to_arrow_type(common_columns({"t": schemas[2]}), timezone="UTC"))


def _structs(kind: str, values: list[bytes | None], header: bytes | None = None) -> tuple[pa.Array, pa.Array]:
    """Return the columns of values; `header` names the schema of all of them."""
    named = None if header is None else [{"key": VALUE_HEADER, "value": header}]
    headers = pa.array([named] * len(values), schema(["headers"]).field("headers").type)
    return _columns(kind).structs(pa.array(values, pa.binary()), headers)


def test_values_have_the_columns_of_the_newest_schema(kind: str) -> None:
    format_ = FORMATS[kind]
    older = _value(1, format_, FIRST, {"id": 2, "name": None})
    found, reasons = _structs(kind, [_value(2, format_, SECOND, ROW), older, None])
    found.validate(full=True)
    assert reasons.to_pylist() == [None] * 3
    first, second, third = found.to_pylist()
    assert {**first, "marks": dict(first["marks"])} == ROW
    assert third is None
    assert (second["id"], second["name"], second["price"], second["buyer"]) == (2, None, None, None)


def test_value_with_its_schema_id_in_a_header_is_read(kind: str) -> None:
    value = _value(2, FORMATS[kind], SECOND, ROW)
    lead = value[5:6] if kind == "PROTOBUF" else b""
    found, reasons = _structs(kind, [value[5 + len(lead) :], None], value[:5] + lead)
    assert reasons.to_pylist() == [None, None]
    first, second = found.to_pylist()
    assert {**first, "marks": dict(first["marks"])} == ROW
    assert second is None


def test_unreadable_values_are_named(kind: str) -> None:
    format_ = FORMATS[kind]
    right = _value(2, format_, SECOND, ROW)
    wrong = [
        _value(3, format_, Schema.struct({"id": STRING}, name="Order"), {"id": "x"}),
        b"\0\0\0\0\2\0{",
        b"\0\0\0\0\x09",
    ]
    found, reasons = _structs(kind, [right, *wrong, right])
    assert [row is None for row in found.to_pylist()] == [False, True, True, True, False]
    assert [bool(reason) for reason in reasons.to_pylist()] == [False, True, True, True, False]


def test_a_value_of_another_message_does_not_become_a_row_of_nulls() -> None:
    other = _value(4, FORMATS["PROTOBUF"], Schema.struct({"other": INT32}, name="Other"), {"other": 1})
    _, reasons = _structs("PROTOBUF", [other])
    assert reasons.to_pylist() == ["it is of Other, but the columns are those of Order"]


def test_map_with_keys_other_than_text_is_refused() -> None:
    with pytest.raises(SchemaError, match="a map whose keys are not text has no column"):
        arrow_type(Schema(SchemaType.MAP, key_schema=INT32, value_schema=STRING))
