"""Payloads of values with a schema, as `from_json` is to read them."""

import base64
import datetime as dt
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812

from fencepost.builtin.converter.json import JsonConverter
from fencepost.record import Schema, SchemaType
from fencepost.record.schema import DATE, INT32, INT64, STRING, TIME, TIMESTAMP, decimal
from fencepost.spark.row.payloads import Forms, Payloads

MILLIS = dt.timedelta(milliseconds=1)
BYTES, INT8, DOUBLE = (Schema.of(each) for each in (SchemaType.BYTES, SchemaType.INT8, SchemaType.FLOAT64))
D = "org.apache.kafka.connect.data."


def columns(**types: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in types.items()])


def envelope(fields: Mapping[str, Schema], **values: Any) -> bytes:
    written = JsonConverter().from_connect_data("t", Schema.struct(fields), values)
    assert written is not None
    return written


def taken(
    kinds: T.StructType, *values: bytes | None, is_null_replaced: bool = True
) -> tuple[list[Any], list[str | None]]:
    """Return the payloads, parsed, and the reasons."""
    texts, reasons = Payloads(kinds, is_null_replaced=is_null_replaced).taken(pa.array(values, pa.binary()))
    return [None if text is None else json.loads(text) for text in texts.to_pylist()], reasons.to_pylist()


def field(schema: Schema, kind: T.DataType, value: Any) -> tuple[Any, str | None]:
    """Return what is written for a value of this schema in a column of this type, or why it does not fit."""
    (payload,), (reason,) = taken(columns(a=kind), envelope({"a": schema}, a=value))
    return payload and payload["a"], reason


@pytest.mark.parametrize(
    ("schema", "value", "kind", "written"),
    [
        (DATE, dt.date(2024, 2, 29), T.DateType(), "2024-02-29"),
        (DATE, dt.date(1, 1, 1), T.DateType(), "0001-01-01"),
        (DATE, -719_529, T.DateType(), "-0001-12-31"),
        (DATE, (1 << 31) - 1, T.DateType(), "+5881580-07-11"),
        (DATE, 19_782, T.IntegerType(), 19_782),
        (TIME, dt.time(23, 59, 59, 999_000), T.TimeType(), "23:59:59.999"),
        (TIME, dt.time(7, 5), T.StringType(), "07:05:00.000"),
        (TIME, dt.time(7, 5), T.TimeType(0), "07:05:00.000"),
        (TIMESTAMP, dt.datetime(2026, 11, 26, 1, 2, 3, 4_000, dt.UTC), T.TimestampType(), "2026-11-26T01:02:03.004Z"),
        (TIMESTAMP, -1, T.TimestampType(), "1969-12-31T23:59:59.999Z"),
        (TIMESTAMP, 253_402_300_800_000, T.TimestampType(), "+10000-01-01T00:00:00.000Z"),
        (TIMESTAMP, 0, T.TimestampNTZType(), "1970-01-01T00:00:00.000"),
        (TIMESTAMP, 5, T.LongType(), 5),
        (decimal(2), Decimal("-1234567890123456789012345678.90"), T.DecimalType(38, 2),
         "-1234567890123456789012345678.90"),
        (decimal(2), Decimal("1.50"), T.DecimalType(2, 1), "1.50"),
        (decimal(-3), Decimal("5E+3"), T.DecimalType(4, 0), "5000"),
        (decimal(3), Decimal("0.001"), T.StringType(), "0.001"),
        (INT64, (1 << 53), T.DoubleType(), 1 << 53),
        (INT64, 12_345, T.DecimalType(7, 2), "12345"),
        (INT8, 127, T.ByteType(), 127),
        (STRING, "2024-02-29", T.DateType(), "2024-02-29"),
        (STRING, "1.25", T.DecimalType(3, 2), "1.25"),
        (BYTES, b"\x00\xff", T.BinaryType(), "AP8="),
        (Schema.of(SchemaType.INT64, name="io.debezium.time.MicroTimestamp"), 7, T.LongType(), 7),
    ],
)  # fmt: skip
def test_a_value_keeps_its_meaning_in_a_column_that_holds_it(
    schema: Schema, value: Any, kind: T.DataType, written: Any
) -> None:
    assert field(schema, kind, value) == (written, None)


@pytest.mark.parametrize(
    ("schema", "value", "kind", "reason"),
    [
        (TIMESTAMP, 0, T.DateType(), f"a: its schema is int64 {D}Timestamp, which does not fit DATE: declare TIM"),
        (TIMESTAMP, 1 << 62, T.TimestampType(), "a: 4611686018427387904 ms since 1970 are beyond what a timestamp"),
        (DATE, 0, T.TimestampType(), f"a: its schema is int32 {D}Date, which does not fit TIMESTAMP: declare DATE"),
        (TIME, 90_000_000, T.TimeType(), "a: 90000000 ms are not a time of day"),
        (TIME, 1, T.TimeType(2), "a: 00:00:00.001 has more digits than TIME(2)"),
        (decimal(3), Decimal("1.239"), T.DecimalType(10, 2), "a: 1.239 does not fit DECIMAL(10,2)"),
        (decimal(0), Decimal(1000), T.DecimalType(3, 0), "a: 1000 does not fit DECIMAL(3,0)"),
        (decimal(0), Decimal(1), T.DoubleType(), f"a: its schema is bytes {D}Decimal, which does not fit DOUBLE"),
        (INT64, 5, T.TimestampType(), "a: its schema is int64, which does not fit TIMESTAMP: declare BIGINT or STRING"),
        (Schema.of(SchemaType.INT64, name="io.debezium.time.Timestamp"), 5, T.TimestampType(),
         "a: its schema is int64 io.debezium.time.Timestamp, which does not fit TIMESTAMP"),
        (INT64, 1 << 31, T.IntegerType(), "a: 2147483648 does not fit INT"),
        (INT64, (1 << 53) + 1, T.DoubleType(), "a: 9007199254740993 does not fit DOUBLE"),
        (DOUBLE, 0.1, T.FloatType(), "a: its schema is double, which does not fit FLOAT: declare DOUBLE"),
        (DOUBLE, 0.125, T.DecimalType(5, 2), "a: 0.125 does not fit DECIMAL(5,2)"),
        (STRING, "a", T.IntegerType(), "a: its schema is string, which does not fit INT"),
        (STRING, "a", T.DecimalType(5, 2), "a: 'a' is not a number"),
        (BYTES, b"a", T.IntegerType(), "a: its schema is bytes, which does not fit INT"),
        (INT32, 1, T.ArrayType(T.IntegerType()), "a: its schema is int32, which does not fit ARRAY<INT>"),
    ],
)  # fmt: skip
def test_a_value_that_a_column_does_not_hold_is_refused_by_name(
    schema: Schema, value: Any, kind: T.DataType, reason: str
) -> None:
    payload, found = field(schema, kind, value)
    assert payload is None
    assert str(found).startswith(reason)


def test_logical_types_are_found_in_nested_and_null_values() -> None:
    inner = Schema.struct({"at": TIMESTAMP.optional(), "n": INT32})
    fields = {
        "days": Schema(SchemaType.ARRAY, value_schema=DATE.optional()),
        "by": Schema(SchemaType.MAP, key_schema=STRING, value_schema=decimal(1)),
        "in": inner.optional(),
        "many": Schema(SchemaType.ARRAY, value_schema=inner),
        "nested": Schema(SchemaType.ARRAY, value_schema=Schema(SchemaType.ARRAY, value_schema=TIME)),
        "more": STRING,
    }
    struct = columns(at=T.TimestampType(), n=T.IntegerType())
    kinds = columns(
        days=T.ArrayType(T.DateType()), by=T.MapType(T.StringType(), T.DecimalType(3, 1)), **{"in": struct},
        many=T.ArrayType(struct), nested=T.ArrayType(T.ArrayType(T.TimeType())), missing=T.DateType(),
    )  # fmt: skip
    value = {
        "days": [0, None], "by": {"x": Decimal("1.5")}, "in": None, "nested": [[], [0]], "more": "ü",
        "many": [{"at": 0, "n": 1}, {"at": None, "n": 2}],
    }  # fmt: skip
    (payload,), reasons = taken(kinds, envelope(fields, **value))
    assert reasons == [None]
    assert payload == {
        "days": ["1970-01-01", None], "by": {"x": "1.5"}, "in": None,
        "many": [{"at": "1970-01-01T00:00:00.000Z", "n": 1}, {"at": None, "n": 2}],
        "nested": [[], ["00:00:00.000"]], "more": "ü",
    }  # fmt: skip
    misfit = columns(many=T.ArrayType(columns(at=T.DateType())))
    assert str(taken(misfit, envelope(fields, **value))[1][0]).startswith("many[].at: its schema is int64")


def test_null_is_replaced_by_the_default_if_configured() -> None:
    schema = b'{"type":"struct","fields":[{"type":"int32","name":"' + D.encode() + b'Date","default":1,"field":"a"}]}'
    value = b'{"schema":' + schema + b',"payload":{"a":null}}'
    assert taken(columns(a=T.DateType()), value) == ([{"a": "1970-01-02"}], [None])
    assert taken(columns(a=T.DateType()), value, is_null_replaced=False) == ([{"a": None}], [None])


def test_schemas_and_layouts_of_envelopes_may_differ_between_values() -> None:
    dates, stamps = {"a": DATE}, {"a": TIMESTAMP}
    values = [
        envelope(dates, a=0), envelope(stamps, a=0), envelope(dates, a=1), None,
        json.dumps(dict(reversed(json.loads(envelope(stamps, a=1)).items())), indent=1).encode(),
        b'{"schema":null,"payload":{"a":"plain"}}', b'{"schema":null,"payload":null}', b'{"payload":{"a":1}}',
    ]  # fmt: skip
    payloads, reasons = taken(columns(a=T.StringType()), *values)
    assert reasons == [None] * len(values)
    assert [p and p["a"] for p in payloads] == [
        "1970-01-01", "1970-01-01T00:00:00.000Z", "1970-01-02", None, "1970-01-01T00:00:00.001Z", "plain", None, 1,
    ]  # fmt: skip


def test_numbers_without_a_logical_type_keep_all_digits() -> None:
    text = b'{"a":0,"big":123456789012345678901234567890,"f":0.10000000000000000001,"e":1E400,"z":-0.0,"n":NaN}'
    schema = json.dumps({"type": "struct", "fields": [{"type": "int32", "name": f"{D}Date", "field": "a"}]}).encode()
    value = b'{"schema":' + schema + b',"payload":' + text + b"}"
    texts, _ = Payloads(columns(a=T.DateType(), big=T.StringType()), is_null_replaced=True).taken(pa.array([value] * 2))
    assert texts.to_pylist() == [text.decode().replace('"a":0', '"a":"1970-01-01"').replace("1E400", "1E+400")] * 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"no JSON", "the payload: the value is not JSON"),
        (b'{"a":1}', 'the payload: it has no envelope of "schema" and "payload"'),
        (b'{"schema":{"type":"int32"},"payload":5}', "the payload: its schema is int32"),
        (b'{"schema":null,"payload":[1]}', "the payload: it is not an object"),
        (b'{"schema":{},"payload":{}}', "the payload: its schema has no type"),
        (b'{"schema":null,"payload":{"a":"\\ud800"}}', "the payload: it has a text that is not Unicode"),
        (b'{"schema":null,"payload":{"a":"\xff"}}', "the payload: the value is not JSON"),
        (b"[" * 100_000, "the payload: the value is not JSON"),
    ],
)
def test_value_that_is_not_an_envelope_is_refused_with_a_reason(value: bytes, reason: str) -> None:
    payloads, reasons = taken(columns(a=T.StringType()), value)
    assert payloads == [None]
    assert str(reasons[0]).startswith(reason)


def test_fields_after_the_payload_are_not_part_of_it() -> None:
    known = envelope({"a": INT32}, a=1)
    head = known[: known.index(b',"payload":')]
    odd = [head + b',"payload":{"a":2},"payload":{"a":3}}', head + b',"payload":{"a":4},"more":{"a":5}}', head + b"}"]
    payloads, reasons = taken(columns(a=T.IntegerType()), known, *odd)
    assert payloads == [{"a": 1}, {"a": 3}, {"a": 4}, None]
    assert reasons[-1] is not None


def test_decimal_of_thousands_of_digits_does_not_fit() -> None:
    data = envelope({"a": decimal(0)}, a=Decimal(5))
    data = data.replace(base64.b64encode(b"\x05"), base64.b64encode(b"\x01" * 2_000))
    (payload,), (reason,) = taken(columns(a=T.DecimalType(38, 0)), data)
    assert payload is None
    assert "more digits than a column" in str(reason)


@pytest.mark.parametrize("depth", [300, 600, 1_000, 5_000])
def test_value_that_is_nested_too_deeply_does_not_fit(depth: int) -> None:
    """Its error would pass as one of the executor, and the epoch would be read for ever."""
    text = json.loads(envelope({"a": STRING, "t": TIMESTAMP}, a="x", t=dt.datetime(2020, 1, 1, tzinfo=dt.UTC)))
    plain, deep = (
        b'{"schema":%s,"payload":{"a":%s,"t":1}}' % (json.dumps(text["schema"]).encode(), a)
        for a in (b'"x"', b"[" * depth + b"1.5" + b"]" * depth)
    )
    found, reasons = taken(columns(a=T.StringType(), t=T.TimestampType()), plain, deep, plain)
    assert reasons[0] is None
    assert reasons[1]
    assert reasons[2] is None
    assert found[1] is None


def raw_envelope(schema: str, value: str) -> bytes:
    fields = f'{{"type":"struct","fields":[{{{schema},"field":"a"}}]}}'
    return f'{{"schema":{fields},"payload":{{"a":{value}}}}}'.encode()


_STAMP = f'"type":"int64","name":"{D}Timestamp"'
_LONG = '"type":"int64"'


def _decimal_of_scale(scale: str) -> str:
    return f'"type":"bytes","name":"{D}Decimal","parameters":{{"scale":{scale}}}'


@pytest.mark.parametrize(
    ("schema", "value", "kind", "reason"),
    [
        (_STAMP, "1e5000", T.TimestampType(), "ms since 1970 are beyond"),
        (_STAMP, "1" * 5_000, T.TimestampType(), "ms since 1970 are beyond"),
        (f'"type":"int32","name":"{D}Date"', "1e5000", T.DateType(), "days are beyond"),
        (f'"type":"int32","name":"{D}Time"', "1e5000", T.TimeType(), "ms are not a time of day"),
        (_LONG, "1e5000", T.IntegerType(), "… does not fit INT"),
        (_LONG, "1" * 5_000, T.DoubleType(), "does not fit DOUBLE"),
        (_LONG, "1" * 5_000, T.DecimalType(38, 0), "does not fit DECIMAL"),
        (_STAMP, '1,"x":1e99999999999999999999', T.TimestampType(), "it has a number whose exponent is too large"),
        (_STAMP, '1,"x":-0.5e-99999999999999999999', T.TimestampType(), "it has a number whose exponent is too large"),
        ('"type":"\\ud800"', "1", T.IntegerType(), "its schema is ?, which does not fit INT"),
        ('"type":"string","name":"\\ud800"', "1", T.IntegerType(), "its schema is string ?, which"),
        ('"type":"string"', '"1_0"', T.DecimalType(5, 2), "'1_0' is not a number"),
        *(
            (_decimal_of_scale(scale), '"AQ=="', kind, "its schema is a Decimal whose scale is not a number up")
            for kind in (T.DecimalType(38, 0), T.StringType())
            for scale in (
                '"99999999999999999999"', "1e1000000", "1e999999999", "2", '"-1000000"', '"-999999999"', '"10001"',
                '"1_0"', "null", "[1]",
            )
        ),
    ],
)  # fmt: skip
def test_odd_record_does_not_fit_and_its_neighbours_are_read(
    schema: str, value: str, kind: T.DataType, reason: str
) -> None:
    good, odd = raw_envelope('"type":"string"', '"x"'), raw_envelope(schema, value).replace(b'"a"', b'"b"')
    payloads, reasons = taken(columns(a=T.StringType(), b=kind), good, odd, good)
    assert payloads == [{"a": "x"}, None, {"a": "x"}]
    assert reason in str(reasons[1])


def test_unexpected_error_is_limited_to_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise LookupError("\ud800" + "x" * 100_000)

    monkeypatch.setattr(Forms, "of", broken)
    payloads, (reason, other) = taken(columns(a=T.StringType()), envelope({"a": STRING}, a="x"), b'{"payload":{}}')
    assert (payloads, other) == ([None, {}], None)
    assert str(reason).startswith("the payload: it cannot be read: LookupError(")
    assert len(str(reason)) <= 1_000


def test_schema_name_that_is_not_text_is_ignored() -> None:
    assert taken(columns(a=T.LongType()), raw_envelope('"type":"int64","name":[1]', "5")) == ([{"a": 5}], [None])


@pytest.mark.parametrize("later", ['{"type":"string"}', "null"])
def test_duplicate_schema_of_a_record_does_not_affect_other_records(later: str) -> None:
    good = raw_envelope(_STAMP, "0")
    odd = good[:-1] + f',"schema":{later}}}'.encode()
    payloads, reasons = taken(columns(a=T.TimestampType()), odd, good, odd, good)
    right = {"a": "1970-01-01T00:00:00.000Z"}
    assert (payloads[1], payloads[3], reasons[1], reasons[3]) == (right, right, None, None)


def test_small_numbers_are_written_without_exponent() -> None:
    """Spark makes a double of one, where it is part of a VARIANT."""
    value = raw_envelope(_STAMP, '1,"x":0.0000001,"y":1e3')
    texts, _ = Payloads(columns(a=T.TimestampType()), is_null_replaced=True).taken(pa.array([value]))
    assert texts[0].as_py() == '{"a":"1970-01-01T00:00:00.001Z","x":0.0000001,"y":1000}'
