"""ProtobufConverter: structs as messages, whose text protoc reads, which is not ours."""

import base64
import datetime as dt
import subprocess
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.registry.client import Reference, WrittenSchema
from fencepost.builtin.converter.registry.protobuf.compiling import compiled
from fencepost.builtin.converter.registry.protobuf.converter import (
    ProtobufConverter,
    ProtobufFormat,
    place_of,
    read_place,
)
from fencepost.builtin.converter.registry.settings import HEADER_ID
from fencepost.record import HeaderBytes
from fencepost.record.schema import BOOLEAN, BYTES, DATE, FLOAT64, INT32, INT64, STRING, TIME, TIMESTAMP, decimal
from support.memory_registry import MemoryRegistry, with_registry

ROW = Schema.struct(
    {
        "id": INT64,
        "small": Schema(SchemaType.INT8),
        "name": STRING,
        "on": BOOLEAN,
        "load": FLOAT64,
        "raw": BYTES,
        "tags": Schema(SchemaType.ARRAY, value_schema=STRING),
        "seats": Schema(SchemaType.MAP, key_schema=STRING, value_schema=INT32),
        "odd": Schema(SchemaType.MAP, key_schema=FLOAT64, value_schema=STRING),
        "place": Schema.struct({"city": STRING}, name="shop.Place").optional(),
        "stops": Schema(SchemaType.ARRAY, value_schema=Schema.struct({"n": INT32}, name="shop.Stop")),
        "at": TIMESTAMP,
        "day": DATE,
        "time": TIME,
        "price": decimal(2),
    },
    name="shop.Row",
)
VALUE: dict[str, Any] = {
    "id": -(1 << 63),
    "small": -128,
    "name": "Zoë",
    "on": True,
    "load": 0.5,
    "raw": b"\0\xff",
    "tags": ["a", ""],
    "seats": {"7A": 1, "": -1},
    "odd": {0.5: "half"},
    "place": {"city": "Zürich"},
    "stops": [{"n": 1}, {"n": 0}],
    "at": dt.datetime(1969, 12, 31, 23, 59, 59, 123000, tzinfo=dt.UTC),
    "day": dt.date(2026, 11, 26),
    "time": dt.time(23, 59, 59, 999000),
    "price": Decimal("-12.34"),
}


def form(**settings: str) -> ProtobufFormat:
    return ProtobufFormat({key.replace("_", "."): value for key, value in settings.items()})


def test_protobuf_schema_text_compiles_with_protoc_and_values_survive() -> None:
    done = form().written(ROW)
    assert done.name == "shop.Row"
    assert 'syntax = "proto3";\npackage shop;\nimport "confluent/meta.proto";' in done.schema.text
    data = done.writer.lead + done.writer.encode(VALUE)
    schema, value = form().reader(done.schema, {}, 3).read(b"id..." + data, 5)
    assert value == VALUE
    assert (schema.name, schema.version) == ("shop.Row", 3)
    kinds = {field.name: (field.schema.type, field.schema.name) for field in schema.fields}
    assert kinds == {
        field.name: (field.schema.type, field.schema.name and field.schema.name.replace("Place", "Row.Place"))
        for field in ROW.fields
    }


def test_protobuf_field_numbers_in_protoc_follow_the_struct_fields() -> None:
    done = form().written(ROW)
    by_protoc = compiled(done.schema, {}).message_types_by_name["Row"]
    numbers = {field.name: field.number for field in by_protoc.fields}
    assert list(numbers.values()) == list(range(1, len(ROW.fields) + 1))
    assert done.writer.encode_all([VALUE], b"x") == [b"x" + done.writer.encode(VALUE)]


def test_protobuf_nulls_are_kept_if_configured() -> None:
    schema = Schema.struct({"a": INT32.optional(), "b": STRING.optional()}, name="N")
    for setting, expected in (("false", {"a": 0, "b": ""}), ("true", {"a": None, "b": None})):
        done = form(optional_for_nullables=setting).written(schema)
        payload = done.writer.lead + done.writer.encode({"a": None, "b": None})
        assert form().reader(done.schema, {}, None).read(payload, 0)[1] == expected


FOREIGN = """\
syntax = "proto3";
package shop;
import "money.proto";
import "google/protobuf/wrappers.proto";
message Other { string x = 1; }
message Order {
  enum State { OPEN = 0; PAID = 5; }
  message Line { uint64 sku = 1; }
  reserved 9;
  int32 id = 1;
  State state = 2;
  oneof payment { string card = 3; Line barter = 4; }
  repeated Line lines = 5;
  map<int32, Line> by_place = 6;
  Money price = 7; // a comment
  optional uint32 count = 8;
  google.protobuf.StringValue note = 10;
}
"""
MONEY = 'syntax = "proto3"; package shop; message Money { fixed64 cents = 1; }'
SCHEMA = WrittenSchema("PROTOBUF", FOREIGN, (Reference("money.proto", "money", 1),))
REFERENCED = {"money.proto": WrittenSchema("PROTOBUF", MONEY)}


def messages() -> Any:
    from google.protobuf.message_factory import GetMessageClass

    file = compiled(SCHEMA, REFERENCED)
    return GetMessageClass(file.message_types_by_name["Order"])


def test_foreign_protobuf_schema_is_read_with_its_references() -> None:
    order = messages()(id=1, state=5, card="4711", lines=[{"sku": (1 << 64) - 1}], price={"cents": 5})
    order.by_place[3].sku = 7
    order.note.value = "x"
    reader = form().reader(SCHEMA, REFERENCED, None)
    schema, value = reader.read(place_of([1]) + order.SerializeToString(), 0)
    assert value == {
        "payment_0": {"card": "4711", "barter": None},
        "id": 1,
        "state": "PAID",
        "lines": [{"sku": -1}],  # unsigned, as Java reads it
        "by_place": {3: {"sku": 7}},
        "price": {"cents": 5},
        "count": None,
        "note": {"value": "x"},
    }
    assert schema.fields[0].schema.name == "io.confluent.connect.protobuf.Union.payment"
    assert dict(schema.fields[1].schema.parameters)["io.confluent.connect.protobuf.Tag"] == "1"
    assert reader.read(place_of([0]) + b"\n\1y", 0) == (reader.read(place_of([0]), 0)[0], {"x": "y"})
    assert reader.read(place_of([1, 0]) + b"\x08\x05", 0)[1] == {"sku": 5}
    unknown = messages()(state=6)
    assert reader.read(place_of([1]) + unknown.SerializeToString(), 0)[1]["state"] == "UNKNOWN_ENUM_VALUE_State_6"


def test_foreign_protobuf_message_survives_reading_and_writing() -> None:
    reader = form().reader(SCHEMA, REFERENCED, None)
    order = messages()(id=1, state=5, barter={"sku": 3}, lines=[{"sku": 2}], price={"cents": 5}, count=0)
    schema, value = reader.read(place_of([1]) + order.SerializeToString(), 0)
    again = form(optional_for_nullables="true").written(schema)
    assert form().reader(again.schema, {}, None).read(again.writer.lead + again.writer.encode(value), 0)[1] == value
    rewritten = form().rewritten(SCHEMA, REFERENCED, again, is_strict=True)
    assert rewritten.lead == place_of([1])
    assert reader.read(rewritten.lead + rewritten.encode(value), 0) == (schema, value)


def test_serialised_protobuf_descriptor_is_read() -> None:
    from google.protobuf import descriptor_pb2

    file = descriptor_pb2.FileDescriptorProto()
    compiled(REFERENCED["money.proto"], {}).CopyToProto(file)
    text = base64.b64encode(file.SerializeToString()).decode()
    assert form().reader(WrittenSchema("PROTOBUF", text), {}, None).read(b"\0", 0)[1] == {"cents": 0}


def test_protoc_runs_once_per_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Any] = []
    run = subprocess.run

    def counted(command: Any, **options: Any) -> Any:
        runs.append(command)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", counted)
    schema = WrittenSchema("PROTOBUF", 'syntax = "proto3"; message RunsOnce { int32 n = 1; }')
    assert form().name_of(schema, {}) == "RunsOnce"
    assert form().reader(schema, {}, None).read(b"\0\x08\5", 0)[1] == {"n": 5}
    assert form().reader(schema, {}, 2).read(b"\0\x08\5", 0)[1] == {"n": 5}
    assert len(runs) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message", "not valid Protobuf"),
        ('syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
        ('syntax = "proto3";', "no message"),
        ('syntax = "proto3"; message Node { Node next = 1; }', r"contains itself.*Node > Node"),
    ],
)
def test_invalid_protobuf_schema_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        form().reader(WrittenSchema("PROTOBUF", text), {}, None).read(b"\0", 0)


def test_protobuf_reference_cannot_leave_its_directory() -> None:
    schema = WrittenSchema("PROTOBUF", 'syntax = "proto3"; message A {}')
    with pytest.raises(RecordError, match="no file name"):
        compiled(schema, {"../../evil.proto": schema})


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (STRING, "x", "messages only"),
        (Schema.struct({"a-b": INT32}, name="N"), {}, "scrub"),
        (Schema.struct({"n": INT32}, name="N"), {"n": None}, "n: Invalid null"),
        (Schema.struct({"n": INT32}, name="N"), {"n": 1 << 31}, "INT32"),
        (Schema.struct({"n": INT32}, name="N"), {"n": True}, "INT32"),
        (Schema.struct({"n": INT32}, name="N"), {"n": 1, "m": 2}, "m is not a valid field name"),
        (Schema.struct({"s": STRING}, name="N"), {"s": b"x"}, "STRING"),
        (
            Schema.struct({"a": Schema(SchemaType.ARRAY, value_schema=Schema(SchemaType.ARRAY, value_schema=INT32))}),
            {},
            "arrays of arrays",
        ),
    ],
)
def test_value_that_protobuf_cannot_express_is_refused(schema: Schema, value: Any, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        form().written(schema).writer.encode(value)


@pytest.mark.parametrize("data", [b"", b"\2", b"\2\x10", b"\0\xff\xff", b"\x81\x80\x80\x80\x80\x80\x01", b"\1"])
def test_bytes_that_are_no_protobuf_message_are_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        form().reader(WrittenSchema("PROTOBUF", MONEY), {}, None).read(data, 0)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=5))
def test_protobuf_message_indexes_are_encoded_as_in_confluents_client(indexes: list[int]) -> None:
    from confluent_kafka.schema_registry.serde import SchemaId

    theirs = SchemaId("PROTOBUF", 1, message_indexes=indexes).id_to_bytes()[5:]
    assert place_of(indexes) == theirs or indexes == [0]
    assert read_place(b"xx" + place_of(indexes), 2) == (tuple(indexes), 2 + len(place_of(indexes)))


def converter(registry: MemoryRegistry, **settings: str) -> ProtobufConverter:
    return with_registry(ProtobufConverter, registry, **settings)


def test_protobuf_frame_contains_the_message_indexes() -> None:
    registry = MemoryRegistry(first_id=7)
    schema = Schema.struct({"n": INT32}, name="shop.N")
    data = converter(registry).from_connect_data("t", schema, {"n": 1})
    assert data == b"\0\0\0\0\7\0\x08\1"
    assert converter(registry).to_connect_data("t", data)[1] == {"n": 1}
    column = converter(registry).for_topic("t").from_column(schema, [{"n": 1}, {"n": 2}])
    assert column == [data, b"\0\0\0\0\7\0\x08\2"]
    read = converter(registry).for_topic("t").to_column(column or [])
    assert read is not None
    assert list(read[1]) == [{"n": 1}, {"n": 2}]


def test_protobuf_schema_id_header_contains_the_message_indexes() -> None:
    registry = MemoryRegistry()
    schema = Schema.struct({"n": INT32}, name="shop.N")
    headers: list[HeaderBytes] = []
    data = converter(registry, value_schema_id_serializer=HEADER_ID).from_connect_record("t", headers, schema, {"n": 1})
    assert data == b"\x08\1"
    assert (headers[0][1] or b"")[-1:] == b"\0"
    assert len(headers[0][1] or b"") == 18
    assert converter(registry).to_connect_record("t", headers, data)[1] == {"n": 1}


def of_enums(*bodies: str, fields: str, syntax: str = "proto2") -> str:
    return f'syntax = "{syntax}"; package shop; message Row {{ {fields} }} {" ".join(bodies)}'


ONE = "optional S s = 1;"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (of_enums("enum S { option allow_alias = true; A = 0; B = 0; C = 1; }", fields=ONE), {"s": "C"}),
        (of_enums("enum S { A = 0; B = 1; }", fields="optional S s = 1; optional S t = 2;"), {"s": "B", "t": "A"}),
        (of_enums("enum S { A = 3; B = -1; }", fields=ONE), {"s": "B"}),
        (of_enums("enum S { A = 0; B = 1; }", fields="optional S s = 1; optional int32 B = 2;"), {"s": "B", "B": 7}),
        (
            of_enums("message M { enum S { A = 0; } }", "enum S {A = 0; B = 2;}", fields=ONE + " optional M.S t = 2;"),
            {"s": "B", "t": "A"},
        ),
        (of_enums("enum S { A = 0; B = 1; }", fields="map<int32, S> m = 1; repeated S s = 2;"),
         {"m": {1: "B"}, "s": ["B"]}),
    ],
)  # fmt: skip
def test_written_protobuf_enums_compile_with_protoc_and_read_back(text: str, value: dict[str, Any]) -> None:
    read, _ = form().reader(WrittenSchema("PROTOBUF", text, ()), {}, None).read(place_of([0]), 0)
    done = form(optional_for_nullables="true").written(read)
    compiled(done.schema, {})
    schema, found = form().reader(done.schema, {}, None).read(done.writer.lead + done.writer.encode(value), 0)
    assert found == value
    again = form(optional_for_nullables="true").written(schema)
    compiled(again.schema, {})


@pytest.mark.parametrize(
    "body",
    [
        "int32 A = 1; .A b = 2; message N { int32 N = 1; } N n = 3;",
        "int32 Each = 1; .Each e = 2; repeated .Each es = 3;",
        "oneof A { int32 a = 1; .A b = 2; }",
        "map<string, .A> m = 1; int32 M2 = 2; message M2Entry { int32 x = 1; } M2Entry n = 3;",
        "map<int64, .A> a = 1; map<bool, bytes> b = 2; map<string, .Each> c = 3;",
        "X x = 1; X y = 2; Y.X z = 3; message X { int32 x = 1; } message Y { message X { int32 q = 1; } }",
        "Y y = 1; message Y { Z z = 1; message Z { Y y = 1; message Y { int32 Z = 1; } } }",
        "optional int32 a = 1; optional string _a = 2; int32 b = 3; optional .A c = 4;",
        "oneof o { int32 a = 1; .A m = 2; .Each e = 3; } oneof p { string s = 4; }",
        'reserved 2, 5 to 9; reserved "x"; int32 a = 1 [deprecated = true]; repeated int32 b = 10 [packed = false];',
        "int32 message = 1; string string = 2; int32 optional = 3; bool oneof = 4; map<string, string> map = 5;"
        "int32 reserved = 6; int32 enum = 7; int32 to = 8; int32 max = 9; int32 repeated = 10; int32 group = 11;",
        'int32 a_b = 1 [json_name = "q"]; int32 q = 2 [json_name = "z"];',
        "int32 a = 536870911; uint32 b = 18999; fixed64 c = 20000; sint32 d = 3; uint64 e = 4; float g = 6;",
    ],
)
def test_written_protobuf_messages_compile_with_protoc(body: str) -> None:
    text = f'syntax = "proto3"; message Row {{ {body} }} message A {{ int32 x = 1; }} enum Each {{ Z = 0; W = 1; }}'
    read, _ = form().reader(WrittenSchema("PROTOBUF", text, ()), {}, None).read(place_of([0]), 0)
    for nullables in ("true", "false"):
        done = form(optional_for_nullables=nullables).written(read)
        compiled(done.schema, {})


@pytest.mark.parametrize(
    "fields",
    [
        'optional int32 a = 1 [default = 5]; optional string s = 2 [default = "x"]; required bool b = 3;',
        "repeated double d = 1 [packed = true]; extensions 100 to 199;",
    ],
)
def test_schema_read_from_proto2_compiles_with_protoc_when_written(fields: str) -> None:
    read, _ = form().reader(WrittenSchema("PROTOBUF", of_enums(fields=fields), ()), {}, None).read(place_of([0]), 0)
    compiled(form(optional_for_nullables="true").written(read).schema, {})
