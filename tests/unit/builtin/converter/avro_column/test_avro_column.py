"""Columns of Avro values hold what fastavro reads."""

import json
import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.builtin.converter.avro_column.kind import AvroSchemaError, parsed
from fencepost.builtin.converter.avro_column.resolution import AvroColumn
from support.avro_values import Json, Written, encoded, expected, read, written

_HEAD = b"\0\0\0\0\7"


def _column(writer: Json, reader: Json | None = None) -> AvroColumn:
    return AvroColumn(parsed(json.dumps(writer)), parsed(json.dumps(writer if reader is None else reader)))


def _decoded(column: AvroColumn, values: Sequence[bytes]) -> tuple[list[Any], dict[int, str]]:
    found, faults = _array(column, values)
    return found.to_pylist(), faults


def _array(column: AvroColumn, values: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
    # Within a longer array, as values are when a batch has tombstones or several schemas.
    array = pa.array([b"before", *(_HEAD + value for value in values), b"after"], pa.binary())
    found, faults = column.decoded(array.slice(1, len(values)), len(_HEAD))
    found.validate(full=True)
    assert found.type == column.type
    return found, dict(faults)


@given(written())
def test_avro_column_has_the_same_values_as_fastavro(given_: Written) -> None:
    data = given_.encoded()
    found, faults = _decoded(_column(given_.schema), data)
    assert not faults
    assert found == [expected(given_.schema, read(given_.schema, each)) for each in data]


_WIDER = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"], "string": ["bytes"]}
_DEFAULTS: Sequence[tuple[Json, Any]] = [
    ("string", "none"), (["null", "string"], None), (["string", "null"], "x"), ("long", -1),
    ({"type": "array", "items": "int"}, [1, 2]), ({"type": "map", "values": "string"}, {"k": "v"}), ("boolean", True),
    ({"type": "enum", "name": "New", "symbols": ["A", "B"]}, "B"),
]  # fmt: skip


@st.composite
def _evolved(draw: st.DrawFn, schema: Json) -> Json:
    """Return a reader's schema for a record: fields in another order, fewer, more, wider and optional ones."""
    fields = []
    for field in schema["fields"]:
        type_ = field["type"]
        match draw(st.sampled_from(["same", "drop", "wider", "optional"])):
            case "drop":
                continue
            case "wider" if isinstance(type_, str) and type_ in _WIDER:
                type_ = draw(st.sampled_from(_WIDER[type_]))
            case "optional" if not isinstance(type_, list):
                type_ = ["null", type_]
        fields.append({"name": field["name"], "type": type_})
    if draw(st.booleans()):
        type_, default = draw(st.sampled_from(_DEFAULTS))
        fields.append({"name": "added", "type": type_, "default": default})
    return {**schema, "fields": draw(st.permutations(fields))}


@given(st.data(), written(depth=2))
def test_avro_column_resolves_a_reader_schema_as_fastavro_does(data: st.DataObject, given_: Written) -> None:
    reader = data.draw(_evolved(given_.schema))
    values = given_.encoded()
    found, faults = _decoded(_column(given_.schema, reader), values)
    assert not faults
    assert _rounded(found) == _rounded([expected(reader, read(given_.schema, each, reader)) for each in values])


def _rounded(value: Any) -> Any:
    """Return values with floats of 32 bits: fastavro keeps an integer for a float as it is."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(each) for each in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return struct.unpack("f", struct.pack("f", value))[0] if abs(value) < 1e38 else math.copysign(1e38, value)
    return value


@given(st.data(), written(depth=2))
def test_malformed_avro_value_does_not_affect_other_values(data: st.DataObject, given_: Written) -> None:
    values = given_.encoded()
    place = data.draw(st.integers(0, len(values) - 1))
    wrong = data.draw(st.binary(max_size=30) | st.integers(0, len(values[place])).map(lambda n: values[place][:n]))
    right = [expected(given_.schema, read(given_.schema, each)) for each in values]
    found, faults = _array(_column(given_.schema), [*values[:place], wrong, *values[place + 1 :]])
    assert faults.keys() <= {place}
    others = [each.as_py() for at, each in enumerate(found) if at != place]  # what is wrong may be a date after 9999
    assert others == [*right[:place], *right[place + 1 :]]
    if place in faults:
        assert not found[place].is_valid
        assert faults[place]


_ORDER = {
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": {"type": "record", "name": "Item", "fields": [{"name": "name", "type": "string"}]}},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "id: the value ends too early"),
        (b"\x02", "item.name: the value ends too early"),
        (b"\x02\x06ab", "item.name: the value ends too early"),
        (b"\x02\x01", "item.name: a length is wrong"),
        (b"\x02\x02\xff", "item.name: a text is not UTF-8"),
        (b"\xff" * 11, "id: a number does not end"),
    ],
)
def test_malformed_avro_value_is_reported_with_its_field(value: bytes, reason: str) -> None:
    right = encoded(_ORDER, {"id": 7, "item": {"name": "nut"}})
    found, faults = _decoded(_column(_ORDER), [right] * 3 + [value] + [right] * 2)
    assert faults == {3: reason}
    assert [each is None for each in found] == [False] * 3 + [True] + [False] * 2


def test_bytes_after_an_avro_value_are_ignored() -> None:
    right = encoded(_ORDER, {"id": 7, "item": {"name": "nut"}})
    assert _decoded(_column(_ORDER), [right + b"more", right]) == ([{"id": 7, "item": {"name": "nut"}}] * 2, {})


def test_avro_column_of_no_values_is_empty() -> None:
    column = _column(_ORDER)
    assert column.decoded(pa.array([], pa.binary()), 5) == (pa.array([], column.type), {})


@pytest.mark.parametrize(
    "announced",
    [
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "map", "values": "long"}, b"\x80\x80\x80\x08\x02a"),
    ],
)
def test_absurd_lengths_in_avro_data_allocate_no_memory(announced: tuple[Json, bytes]) -> None:
    type_, value = announced
    _, faults = _decoded(_column({"type": "record", "name": "R", "fields": [{"name": "f", "type": type_}]}), [value])
    assert faults.keys() == {0}


def test_avro_array_blocks_with_a_byte_size_are_read() -> None:
    # Two blocks: of two items with the size in bytes, and of one item without.
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": {"type": "array", "items": "long"}}]}
    assert _decoded(_column(schema), [b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"]) == ([{"f": [1, 2, 3]}], {})


def test_avro_decimals_with_precision_64_are_read_as_a_column() -> None:
    type_ = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}
    column = _column({"type": "record", "name": "R", "fields": [{"name": "f", "type": type_}]})
    assert column.type.field("f").type == pa.decimal128(38, 2)
    small, large = (b"\x04" + (1234).to_bytes(2, "big"), b"\x22" + (1 << 130).to_bytes(17, "big"))
    padded = b"\x28" + (-5).to_bytes(20, "big", signed=True)
    found, faults = _decoded(column, [small, large, padded])
    assert [row and str(row["f"]) for row in found] == ["12.34", None, "-0.05"]
    assert faults.keys() == {1}


def test_avro_bytes_defaults_are_decoded_from_their_characters() -> None:
    """fastavro leaves such defaults as text."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    new = [
        {"name": "b", "type": "bytes", "default": "\u00ff\u0001"},
        {"name": "d", "type": decimal, "default": "\u0001\u0000"},
        {"name": "r", "type": {**_ORDER, "name": "Other"}, "default": {"id": 1, "item": {"name": "x"}}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1_500},
    ]
    found, faults = _decoded(
        _column(_ORDER, {**_ORDER, "fields": new}), [encoded(_ORDER, {"id": 7, "item": {"name": "n"}})]
    )
    assert not faults
    at = found[0].pop("at")
    assert at.timestamp() == 1.5
    assert found == [{"b": b"\xff\x01", "d": Decimal("2.56"), "r": {"id": 1, "item": {"name": "x"}}}]


def test_avro_enum_default_replaces_symbols_unknown_to_the_reader() -> None:
    writer = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
    strict, lenient = ({"type": "enum", "name": "E", "symbols": ["C", "A"], **more} for more in ({}, {"default": "A"}))
    values = [b"\x00", b"\x02", b"\x04"]
    assert _decoded(_column(writer, lenient), values) == (["A", "A", "C"], {})
    assert _decoded(_column(writer, strict), values) == (
        ["A", None, "C"], {1: "the reader's enum does not have a symbol"},
    )  # fmt: skip


def test_union_branch_unknown_to_the_reader_fails_only_its_values() -> None:
    found, faults = _decoded(
        _column(["null", "string", "long"], ["null", "string"]), [b"\x00", b"\x02\x02a", b"\x04\x02"]
    )
    assert found == [None, "a", None]
    assert faults == {2: "the value: long cannot be read as string"}


def test_avro_timestamps_are_converted_to_the_readers_unit() -> None:
    millis, micros = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
    found, faults = _decoded(_column(millis, micros), [encoded("long", 1_700_000_000_123)])
    assert not faults
    assert found[0].timestamp() == 1_700_000_000.123


@pytest.mark.parametrize(
    ("writer", "reader", "reason"),
    [
        ("string", "long", "the value: string cannot be read as long"),
        ("long", "int", "the value: long cannot be read as int"),
        ({"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-millis"},
         "the value: int (date) cannot be read as long (timestamp-millis)"),
        (_ORDER, {**_ORDER, "fields": [*_ORDER["fields"], {"name": "new", "type": "int"}]},
         "new: the writer's schema does not have it, and there is no default"),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "int"},
         "[]: string cannot be read as int"),
    ],
)  # fmt: skip
def test_incompatible_avro_reader_schema_is_refused(writer: Json, reader: Json, reason: str) -> None:
    with pytest.raises(AvroSchemaError) as refused:
        _column(writer, reader)
    assert str(refused.value) == reason


def test_one_bad_value_among_many_avro_values_fails_alone() -> None:
    values = [encoded(_ORDER, {"id": n * 37, "item": {"name": f"item {n}"}}) for n in range(3_000)]
    values[1_234] = b"\x02"
    found, faults = _decoded(_column(_ORDER), values)
    assert faults.keys() == {1_234}
    assert [row and row["id"] for row in found] == [None if n == 1_234 else n * 37 for n in range(3_000)]
