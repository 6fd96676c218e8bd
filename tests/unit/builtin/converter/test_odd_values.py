"""Odd values are converted, or are a RecordError: deep ones, cyclic ones, long ones. Nothing else is raised."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from fencepost.api import Converter, HeaderConverter, RecordError, Schema, SchemaType
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.json_encoding import EncodingOptions
from fencepost.builtin.converter.json_schema import schema_to_json
from fencepost.builtin.converter.plain import SimpleHeaderConverter, StringConverter
from fencepost.record.schema import BYTES, FLOAT64, INT64, STRING, decimal

ENVELOPES = JsonConverter({})
PLAIN = JsonConverter({"schemas.enable": "false"})
TEXTS = StringConverter({})
MEGABYTES = 10_000_000


def nested(depth: int, *, is_list: bool) -> Any:
    found: Any = 1
    for _ in range(depth):
        found = [found] if is_list else {"a": found}
    return found


def nested_schema(depth: int) -> Schema:
    found = INT64
    for _ in range(depth):
        found = Schema(SchemaType.ARRAY, value_schema=found)
    return found


def cyclic_list() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def cyclic_map() -> dict[str, Any]:
    found: dict[str, Any] = {"x": 1}
    found["a"] = [found]
    return found


def cyclic_schema() -> Schema:
    found = Schema(SchemaType.ARRAY)
    object.__setattr__(found, "value_schema", found)
    return found


def outcome(operation: Callable[..., Any], *arguments: Any) -> Any:
    """Return what an operation returns, or its RecordError; any other error is raised."""
    try:
        return operation(*arguments)
    except RecordError as error:
        return error


@pytest.mark.parametrize("depth", [100, 254, 255, 1_000, 1_023, 1_024, 5_000, 100_000])
@pytest.mark.parametrize("is_list", [True, False])
def test_deep_json_is_read_or_is_a_record_error(depth: int, is_list: bool) -> None:
    begin, end = (b"[", b"]") if is_list else (b'{"a":', b"}")
    data = begin * depth + b"1" + end * depth
    for converter in (PLAIN, ENVELOPES):
        message = data if converter is PLAIN else b'{"schema":null,"payload":' + data + b"}"
        one, column = outcome(converter.to_connect_data, "t", message), converter.to_column([message, message])
        assert column is None or not isinstance(one, RecordError)
        if depth <= 1_000:
            assert column is not None


@pytest.mark.parametrize("depth", [100, 250, 255, 1_000, 5_000])
@pytest.mark.parametrize("is_list", [True, False])
def test_deep_values_are_written_or_are_a_record_error(depth: int, is_list: bool) -> None:
    value = nested(depth, is_list=is_list)
    for converter in (PLAIN, ENVELOPES):
        one, column = (
            outcome(converter.from_connect_data, "t", None, value),
            converter.from_column(None, [value]),
        )
        assert isinstance(one, bytes) or column is None
        if depth <= 250:
            assert column == [one]


@pytest.mark.parametrize("depth", [50, 300, 1_000, 5_000])
def test_deep_schemas_are_written_or_are_a_record_error(depth: int) -> None:
    schema, value = nested_schema(depth), nested(depth, is_list=True)
    one, column = (
        outcome(ENVELOPES.from_connect_data, "t", schema, value),
        ENVELOPES.from_column(schema, [value]),
    )
    assert isinstance(one, RecordError) is (column is None)
    assert depth > 50 or column == [one]


@pytest.mark.parametrize("value", [cyclic_list(), cyclic_map()], ids=["list", "map"])
@pytest.mark.parametrize("converter", [PLAIN, ENVELOPES])
def test_cyclic_value_is_a_record_error(converter: Converter, value: Any) -> None:
    with pytest.raises(RecordError):
        converter.from_connect_data("t", None, value)
    assert converter.from_column(None, [value]) is None
    with pytest.raises(RecordError):
        converter.from_connect_data("t", cyclic_schema(), value)
    assert converter.from_column(cyclic_schema(), [value]) is None


@pytest.mark.parametrize("converter", [TEXTS, SimpleHeaderConverter({}), PLAIN])
@pytest.mark.parametrize("value", [cyclic_list(), nested(100_000, is_list=False)], ids=["cyclic", "deep"])
def test_cyclic_or_too_deep_header_value_is_a_record_error(converter: HeaderConverter, value: Any) -> None:
    with pytest.raises(RecordError):
        converter.from_connect_header("t", "h", None, value)


def test_value_of_ten_megabytes_survives_conversion() -> None:
    text = "ä" * (MEGABYTES // 2)
    written = ENVELOPES.from_column(STRING, [text, text])
    assert written is not None
    assert written[0] == ENVELOPES.from_connect_data("t", STRING, text)
    assert ENVELOPES.to_column(written) == (STRING, [text, text])
    data = b"\xff" * MEGABYTES
    message = ENVELOPES.from_connect_data("t", BYTES, data)
    assert ENVELOPES.to_connect_data("t", message) == (BYTES, data)
    assert TEXTS.to_connect_data("t", text.encode()) == (STRING.optional(), text)
    many = [{"id": n, "name": "x"} for n in range(MEGABYTES // 40)]
    assert PLAIN.to_column([PLAIN.from_connect_data("t", None, many)]) == (None, [many])


@pytest.mark.parametrize(
    "number", [b"1" * MEGABYTES, b"0." + b"1" * MEGABYTES, b"1e999999999", b"1e-999999999", b"-" * MEGABYTES]
)
@pytest.mark.parametrize("schema", [INT64, FLOAT64, decimal(2), STRING])
def test_a_number_of_ten_megabytes_is_read_or_is_a_record_error(number: bytes, schema: Schema) -> None:
    written = orjson.dumps(schema_to_json(schema, EncodingOptions()))
    message = b'{"schema":' + written + b',"payload":' + number + b"}"
    read, column = outcome(ENVELOPES.to_connect_data, "t", message), ENVELOPES.to_column([message])
    assert column is None or read == (column[0], column[1][0])
    outcome(PLAIN.to_connect_data, "t", number)
