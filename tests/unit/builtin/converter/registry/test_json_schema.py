"""JsonSchemaConverter: schemas in the words of Confluent's converter, values as JSON."""

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.registry.client import Reference, WrittenSchema
from fencepost.builtin.converter.registry.json_schema.converter import JsonSchemaConverter, JsonSchemaFormat
from fencepost.builtin.converter.registry.json_schema.schema import Document, from_connect, to_connect
from fencepost.builtin.converter.registry.settings import JsonSchemaMapping
from fencepost.record.schema import BYTES, FLOAT64, INT32, INT64, STRING, TIMESTAMP, decimal
from support.memory_registry import MemoryRegistry, with_registry
from support.registry_schemas import SCHEMAS, STRUCTS
from support.schemas import values_of

PLAIN = JsonSchemaMapping()


def mapping(settings: dict[str, str]) -> JsonSchemaMapping:
    return JsonSchemaMapping({key.replace("_", "."): value for key, value in settings.items()})


def written(schema: Schema, **settings: str) -> Any:
    return from_connect(schema, mapping(settings))


def read(root: Any, **settings: str) -> Schema:
    return to_connect(Document(root), mapping(settings))


def decoded(root: Any, value: Any, **settings: str) -> Any:
    reader = JsonSchemaFormat(mapping(settings).originals).reader(WrittenSchema("JSON", json.dumps(root)), {}, None)
    return reader.read(json.dumps(value).encode(), 0)[1]


PERSON = Schema.struct({"id": INT32, "name": STRING.optional()}, name="shop.Person")


def test_struct_becomes_a_json_schema_object_as_in_confluents_converter() -> None:
    assert written(PERSON) == {
        "type": "object",
        "title": "shop.Person",
        "properties": {
            "id": {"type": "integer", "connect.type": "int32", "connect.index": 0},
            "name": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
        },
    }
    assert read(written(PERSON)) == PERSON


@pytest.mark.parametrize(
    ("schema", "root"),
    [
        (FLOAT64, {"type": "number", "connect.type": "float64"}),
        (BYTES, {"type": "string", "connect.type": "bytes"}),
        (
            TIMESTAMP,
            {"type": "integer", "connect.type": "int64", "title": TIMESTAMP.name, "connect.version": 1},
        ),
        (
            Schema(SchemaType.MAP, key_schema=STRING, value_schema=STRING),
            {"type": "object", "connect.type": "map", "additionalProperties": {"type": "string"}},
        ),
        (
            Schema(SchemaType.MAP, key_schema=INT32, value_schema=STRING),
            {
                "type": "array",
                "connect.type": "map",
                "items": {
                    "type": "object",
                    "properties": {
                        "key": {"type": "integer", "connect.type": "int32", "connect.index": 0},
                        "value": {"type": "string", "connect.index": 1},
                    },
                },
            },
        ),
    ],
)
def test_type_becomes_a_json_schema_as_in_confluents_converter(schema: Schema, root: Any) -> None:
    assert written(schema) == root
    assert read(root) == schema


def test_required_and_additional_json_schema_properties_follow_the_settings() -> None:
    settings = {"use.optional.for.nonrequired": "true", "object.additional.properties": "false"}
    root = written(PERSON, **settings)
    assert (root["required"], root["additionalProperties"]) == (["id"], False)
    properties = {"a": {"type": "string"}, "b": {"type": "string"}}
    found = read({"type": "object", "required": ["a"], "properties": properties}, **settings)
    assert [field.schema.is_optional for field in found.fields] == [False, True]


FOREIGN = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "description": "what was bought",
    "definitions": {"money": {"type": "number"}},
    "properties": {
        "id": {"type": "integer"},
        "price": {"$ref": "#/definitions/money"},
        "note": {"type": ["string", "null"]},
        "state": {"enum": ["OPEN", "PAID"]},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "who": {"allOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "boolean"}}}]},
        "tags": {"type": "object", "additionalProperties": {"type": "string"}},
        "count": {"type": "integer", "default": 3},
    },
}


def test_foreign_json_schema_is_read() -> None:
    schema = read(FOREIGN)
    kinds = {field.name: (field.schema.type, field.schema.is_optional) for field in schema.fields}
    assert (schema.name, schema.doc) == ("Order", "what was bought")
    assert kinds == {
        "id": (SchemaType.INT64, False),
        "price": (SchemaType.FLOAT64, False),
        "note": (SchemaType.STRING, True),
        "state": (SchemaType.STRING, False),
        "either": (SchemaType.STRUCT, False),
        "who": (SchemaType.STRUCT, False),
        "tags": (SchemaType.MAP, False),
        "count": (SchemaType.INT64, False),
    }
    value = {"id": 1, "price": 2.5, "state": "OPEN", "either": 7, "who": {"a": "x", "b": True}, "tags": {"k": "v"}}
    assert decoded(FOREIGN, value) == {
        **value,
        "note": None,
        "either": {"io.confluent.connect.json.OneOf.field.0": None, "io.confluent.connect.json.OneOf.field.1": 7},
        "count": 3,
    }


def test_json_schema_union_value_matches_the_struct_with_the_most_fields() -> None:
    root = {
        "oneOf": [
            {"type": "object", "title": "A", "properties": {"x": {"type": "integer"}}},
            {"type": "object", "title": "B", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}},
        ]
    }
    found = decoded(root, {"x": 1, "y": 2})
    assert found["io.confluent.connect.json.OneOf.field.1"] == {"x": 1, "y": 2}
    with pytest.raises(RecordError, match="Did not find matching"):
        decoded(root, "text")


def test_json_schema_union_recognises_a_map_with_null_keys() -> None:
    one_of = "io.confluent.connect.json.OneOf"
    seats, note = f"{one_of}.field.0", f"{one_of}.field.1"
    members = {seats: Schema.map(STRING.optional(), INT32).optional(), note: STRING.optional()}
    schema = Schema.struct({"of": Schema.struct(members, name=one_of)}, name="R")
    for value in ({"of": {seats: {"7A": 1, None: 2}, note: None}}, {"of": {seats: None, note: "x"}}):
        done = JsonSchemaFormat({}).written(schema)
        assert decoded(json.loads(done.schema.text), json.loads(done.writer.encode(value))) == value


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ({"type": "object", "title": "N", "properties": {"next": {"$ref": "#"}}}, "contains itself"),
        ({"$ref": "#"}, "refers to itself without a type"),
        ({"$ref": "#/definitions/none"}, "which is not there"),
        ({"$ref": "other.json"}, "none of its references"),
        ({}, "without a type"),
        (True, "allows anything"),
        ({"type": "array"}, "items"),
        ({"type": "array", "items": [{"type": "string"}]}, "items"),
        ({"type": "null"}, "the type null"),
        ({"enum": [1, 2]}, "anything but text"),
        ({"type": "object", "properties": [1]}, "no object"),
    ],
)
def test_json_schema_that_connect_cannot_express_is_refused_with_advice(root: Any, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        read(root)


def test_json_schema_rules_are_checked_if_configured() -> None:
    root = {"type": "object", "title": "P", "properties": {"age": {"type": "integer", "minimum": 0}}}
    assert decoded(root, {"age": -1}) == {"age": -1}
    with pytest.raises(RecordError, match=r"at age \(minimum: 0\)"):
        decoded(root, {"age": -1}, json_fail_invalid_schema="true")


def test_json_schema_decimals_are_exact_in_both_formats() -> None:
    schema = Schema.struct({"d": decimal(3)}, name="D")
    value = {"d": Decimal("12345678901234567890.125")}
    for setting in ("BASE64", "NUMERIC"):
        form = JsonSchemaFormat({"decimal.format": setting})
        done = form.written(schema)
        assert form.reader(done.schema, {}, None).read(done.writer.encode(value), 0)[1] == value
    assert b"12345678901234567890.125" in done.writer.encode(value)


@given(SCHEMAS)
def test_schema_survives_the_json_schema_round_trip(schema: Schema) -> None:
    assert read(json.loads(json.dumps(written(schema)))) == schema


@given(st.data(), SCHEMAS)
def test_json_schema_value_survives_and_validates_against_its_schema(data: st.DataObject, schema: Schema) -> None:
    form = JsonSchemaFormat({})
    done = form.written(schema)
    value = data.draw(values_of(schema))
    payload = done.writer.encode(value)
    assert form.reader(done.schema, {}, None).read(b"\0\0\0\0\1" + payload, 5) == (schema, value)
    if b"Infinity" not in payload:
        jsonschema.validate(json.loads(payload), json.loads(done.schema.text))


@given(st.data(), STRUCTS)
def test_json_schema_column_bytes_equal_those_of_single_values(data: st.DataObject, schema: Schema) -> None:
    column = data.draw(st.lists(values_of(schema), max_size=4))
    done = JsonSchemaFormat({}).written(schema)
    assert done.writer.encode_all(column, b"\0\0\0\0\x7f") == [
        b"\0\0\0\0\x7f" + done.writer.encode(value) for value in column
    ]
    assert done.writer.encode_all(column, b"") == [done.writer.encode(value) for value in column]


@pytest.mark.parametrize("data", [b"", b"{", b"7", b"\xff", b'{"id": "x"}', b'{"id": 1e999}', b"[" * 100_000])
def test_malformed_json_schema_value_is_a_record_error(data: bytes) -> None:
    form = JsonSchemaFormat({})
    reader = form.reader(form.written(PERSON).schema, {}, None)
    with pytest.raises(RecordError):
        reader.read(data, 0)


def test_json_schema_converter_writes_the_frame_and_reads_references() -> None:
    registry = MemoryRegistry(first_id=7)
    converter = with_registry(JsonSchemaConverter, registry)
    data = converter.from_connect_data("t", PERSON, {"id": 1, "name": None})
    assert data == b'\0\0\0\0\7{"id":1,"name":null}'
    assert converter.to_connect_data("t", data) == (replace(PERSON, version=1), {"id": 1, "name": None})
    registry.register("place", WrittenSchema("JSON", '{"type": "object", "properties": {"city": {"type": "string"}}}'))
    home = '{"type": "object", "title": "Home", "properties": {"at": {"$ref": "place.json"}}}'
    registered = registry.register("h", WrittenSchema("JSON", home, (Reference("place.json", "place", 1),)))
    data = b"\0" + (registered.id or 0).to_bytes(4, "big") + b'{"at": {"city": "Zu"}}'
    assert converter.to_connect_data("h", data)[1] == {"at": {"city": "Zu"}}


def test_json_schema_timestamps_are_written_as_numbers() -> None:
    schema = Schema.struct({"at": TIMESTAMP, "n": INT64}, name="T")
    value = {"at": dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), "n": 1 << 62}
    assert JsonSchemaFormat({}).written(schema).writer.encode(value) == b'{"at":1000,"n":4611686018427387904}'
