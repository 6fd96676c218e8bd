"""Connect's schemas as Avro's, in the words of Confluent's converter, and Avro's as Connect's."""

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.registry.avro.parsing import of_json, parsed
from fencepost.builtin.converter.registry.avro.schema import from_connect, to_connect
from fencepost.builtin.converter.registry.settings import AvroMapping
from fencepost.record.schema import DATE, FLOAT64, INT32, INT64, STRING, TIMESTAMP, decimal
from support.registry_schemas import SCHEMAS

PLAIN = AvroMapping()


def mapping(**settings: str) -> AvroMapping:
    return AvroMapping({key.replace("_", "."): value for key, value in settings.items()})


def written(schema: Schema, **settings: str) -> Any:
    return from_connect(schema, mapping(**settings))


def read(avro: Any, **settings: str) -> Schema:
    return to_connect(of_json(avro), mapping(**settings))


@pytest.mark.parametrize(
    ("schema", "avro"),
    [
        (INT32, "int"),
        (Schema(SchemaType.INT8), {"type": "int", "connect.type": "int8"}),
        (STRING.optional(), ["null", "string"]),
        (DATE, {"type": "int", "connect.version": 1, "connect.name": DATE.name, "logicalType": "date"}),
        (
            TIMESTAMP,
            {"type": "long", "connect.version": 1, "connect.name": TIMESTAMP.name, "logicalType": "timestamp-millis"},
        ),
        (
            decimal(2),
            {
                "type": "bytes",
                "scale": 2,
                "precision": 64,
                "connect.version": 1,
                "connect.parameters": {"scale": "2"},
                "connect.name": "org.apache.kafka.connect.data.Decimal",
                "logicalType": "decimal",
            },
        ),
        (Schema(SchemaType.ARRAY, value_schema=INT64), {"type": "array", "items": "long"}),
        (Schema(SchemaType.MAP, key_schema=STRING, value_schema=FLOAT64), {"type": "map", "values": "double"}),
        (
            Schema(SchemaType.MAP, key_schema=INT32, value_schema=STRING),
            {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "MapEntry",
                    "namespace": "io.confluent.connect.avro",
                    "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}],
                },
            },
        ),
    ],
)
def test_type_becomes_an_avro_schema_as_in_confluents_converter(schema: Schema, avro: Any) -> None:
    assert json.dumps(written(schema)) == json.dumps(avro)
    assert read(avro) == schema


def test_struct_becomes_an_avro_record_with_names_docs_and_defaults() -> None:
    schema = Schema.struct(
        {"id": INT64, "nick": replace(STRING, default="nobody", doc="short"), "age": INT32.optional()},
        name="shop.Person",
    )
    assert written(replace(schema, version=3)) == {
        "type": "record",
        "name": "Person",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "nick",
                "type": {"type": "string", "connect.doc": "short", "connect.default": "nobody"},
                "doc": "short",
                "default": "nobody",
            },
            {"name": "age", "type": ["null", "int"], "default": None},
        ],
        "connect.version": 3,
        "connect.name": "shop.Person",
    }


def test_unnamed_structs_get_distinct_avro_names_that_reading_removes() -> None:
    schema = Schema.struct({"a": Schema.struct({"x": INT32}), "b": Schema.struct({"y": STRING})})
    avro = written(schema)
    assert [avro["name"], *(each["type"]["name"] for each in avro["fields"])] == [
        "ConnectDefault",
        "ConnectDefault2",
        "ConnectDefault3",
    ]
    assert read(avro) == schema


def test_repeated_struct_is_defined_once_in_the_avro_schema() -> None:
    place = Schema.struct({"city": STRING}, name="shop.Place")
    schema = Schema.struct({"home": place, "work": place.optional()}, name="shop.Person")
    avro = written(schema)
    assert avro["fields"][1]["type"] == ["null", "Place"]
    assert read(avro) == schema


def test_different_structs_with_the_same_avro_name_are_refused() -> None:
    schema = Schema.struct(
        {"a": Schema.struct({"x": INT32}, name="s.P"), "b": Schema.struct({"y": INT32}, name="s.P")}, name="s.Both"
    )
    with pytest.raises(RecordError, match=r"Two different schemas have the name s\.P"):
        written(schema)


def test_type_of_the_default_comes_first_in_an_optional_avro_union() -> None:
    schema = Schema.struct({"n": replace(INT32.optional(), default=7)}, name="N")
    assert written(schema)["fields"][0]["type"][1] == "null"
    assert written(schema, ignore_default_for_nullables="true")["fields"][0] == {
        "name": "n",
        "type": ["null", "int"],
        "default": None,
    }


def test_invalid_avro_name_is_refused_with_advice_or_scrubbed() -> None:
    schema = Schema.struct({"first-name": STRING}, name="a.b-c")
    with pytest.raises(RecordError, match=r"a\.b-c.*scrub\.invalid\.names"):
        written(schema)
    avro = written(schema, scrub_invalid_names="true")
    assert (avro["name"], avro["fields"][0]["name"]) == ("b_c", "first_name")


def test_connect_metadata_can_be_left_out_of_avro_schemas() -> None:
    assert written(replace(STRING, name="n", version=2, doc="d"), connect_meta_data="false") == "string"
    assert written(DATE, connect_meta_data="false") == {"type": "int", "logicalType": "date"}


COLOR = {"type": "enum", "name": "Color", "namespace": "shop", "symbols": ["RED", "BLUE"], "doc": "paint"}


def test_avro_enum_becomes_text_that_keeps_its_symbols() -> None:
    schema = read(COLOR, enhanced_avro_schema_support="true")
    assert (schema.type, schema.name) == (SchemaType.STRING, "shop.Color")
    assert dict(schema.parameters)["io.confluent.connect.avro.Enum.RED"] == "RED"
    again = written(schema, enhanced_avro_schema_support="true")
    assert {key: again[key] for key in COLOR} == COLOR
    assert written(schema)["type"] == "string"


def test_generalized_avro_enum_numbers_its_symbols() -> None:
    schema = read(COLOR, generalized_sum_type_support="true")
    assert dict(schema.parameters)["org.apache.kafka.connect.data.Enum.BLUE"] == "1"
    assert written(schema, generalized_sum_type_support="true")["symbols"] == ["RED", "BLUE"]


def test_avro_union_becomes_a_struct_with_a_field_per_member() -> None:
    schema = read(["null", "int", "string", COLOR])
    assert (schema.name, schema.is_optional) == ("io.confluent.connect.avro.Union", True)
    assert [field.name for field in schema.fields] == ["int", "string", "Color"]
    assert all(field.schema.is_optional for field in schema.fields)
    assert written(read(["null", "int", "string"])) == ["null", "int", "string"]
    general = read(["int", "string"], generalized_sum_type_support="true")
    assert [field.name for field in general.fields] == ["connect_union_field_0", "connect_union_field_1"]
    assert written(general, generalized_sum_type_support="true") == ["int", "string"]


def test_avro_union_of_one_member_is_flattened_if_configured() -> None:
    assert read(["int"]).type is SchemaType.STRUCT
    assert read(["int"], flatten_singleton_unions="true") == INT32


def test_avro_records_with_equal_short_names_need_the_enhanced_mapping() -> None:
    both = [{"type": "record", "name": f"{space}.R", "fields": []} for space in ("a", "b")]
    with pytest.raises(RecordError, match=r"enhanced\.avro\.schema\.support"):
        read(both)
    assert [f.name for f in read(both, enhanced_avro_schema_support="true").fields] == ["a.R", "b.R"]


def test_schema_version_is_the_subjects_unless_the_avro_schema_has_one() -> None:
    record = {"type": "record", "name": "R", "fields": []}
    assert to_connect(of_json(record), PLAIN, 4).version == 4
    assert to_connect(of_json({**record, "connect.version": 2}), PLAIN, 4).version == 2


def test_avro_fixed_keeps_its_size_and_decimal_its_precision() -> None:
    fixed = read({"type": "fixed", "name": "Md5", "size": 16})
    assert (fixed.type, fixed.name, dict(fixed.parameters)) == (SchemaType.BYTES, "Md5", {"connect.fixed.size": "16"})
    assert written(fixed)["size"] == 16
    money = read({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})
    assert dict(money.parameters) == {"scale": "2", "connect.decimal.precision": "9"}
    assert written(money)["precision"] == 9


def test_defaults_of_all_types_survive_the_avro_round_trip() -> None:
    fields = {
        "b": replace(Schema(SchemaType.BYTES), default=b"\x00\xff"),
        "d": replace(decimal(2), default=Decimal("1.50")),
        "f": replace(FLOAT64, default=0.5),
        "t": replace(TIMESTAMP, default=None),
    }
    schema = Schema.struct(fields, name="D")
    assert read(written(schema)) == schema


@pytest.mark.parametrize(
    ("avro", "reason"),
    [
        ("[", "not JSON"),
        ('{"type": "record"}', "a name has"),
        ('{"type": "record", "name": "R", "fields": {}}', "list of fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "x"}]}', "needs a name and a type"),
        ('{"type": "record", "name": "R", "fields": [{"name": "x", "type": "Y"}]}', "the name Y is not defined"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "each once"),
        ('{"type": "fixed", "name": "F", "size": -1}', "needs a size"),
        ('["int", "int"]', "each type once"),
        ('{"type": "array"}', "needs items"),
        ("7", "a type is text"),
        ("[" * 5000 + "]" * 5000, "JSON|nested"),
    ],
)
def test_invalid_avro_schema_is_refused_with_the_broken_rule(avro: str, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        parsed(avro)


@pytest.mark.parametrize("wrapped", ['["null", "Node"]', '{"type": "array", "items": "Node"}', '"Node"'])
def test_recursive_avro_schema_is_refused(wrapped: str) -> None:
    text = '{"type": "record", "name": "Node", "fields": [{"name": "next", "type": %s}]}'
    with pytest.raises(RecordError, match=r"contains itself.*Node > Node"):
        parsed(text % wrapped)


def test_avro_names_are_resolved_in_referenced_schemas() -> None:
    place = '{"type": "record", "name": "shop.Place", "fields": [{"name": "city", "type": "string"}]}'
    person = '{"type": "record", "name": "shop.Person", "fields": [{"name": "home", "type": "Place"}]}'
    schema = to_connect(parsed(person, [place]), PLAIN)
    assert schema.fields[0].schema.name == "shop.Place"


@given(SCHEMAS)
def test_schema_survives_the_avro_round_trip(schema: Schema) -> None:
    assert read(json.loads(json.dumps(written(schema)))) == schema
