"""One table of types and values, which runs all ways: Connect, Arrow, Spark, Avro and JSON."""

import datetime as dt
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_type

from fencepost.api import Schema, SchemaError
from fencepost.builtin.converter.avro_column.kind import arrow_type as arrow_type_of_avro
from fencepost.builtin.converter.avro_column.kind import parsed
from fencepost.builtin.converter.json import JsonConverter
from fencepost.record import schema as s
from fencepost.record.schema import arrow_type, schema_of_column
from fencepost.record.type_table import TYPES, of_connect
from fencepost.spark.row.frame import connect_schema

AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678_000, dt.UTC)
CASES: list[tuple[Schema, pa.DataType, Any, Any, Any, Any]] = [
    # Connect, Arrow, Spark, Avro (None: has no type of its own), a value, its JSON
    (s.INT8, pa.int8(), T.ByteType(), None, -128, -128),
    (s.INT16, pa.int16(), T.ShortType(), None, 32_767, 32_767),
    (s.INT32, pa.int32(), T.IntegerType(), "int", -5, -5),
    (s.INT64, pa.int64(), T.LongType(), "long", 1 << 40, 1 << 40),
    (s.FLOAT32, pa.float32(), T.FloatType(), "float", 0.5, 0.5),
    (s.FLOAT64, pa.float64(), T.DoubleType(), "double", 0.1, 0.1),
    (s.BOOLEAN, pa.bool_(), T.BooleanType(), "boolean", True, True),
    (s.STRING, pa.string(), T.StringType(), "string", "é", "é"),
    (s.BYTES, pa.binary(), T.BinaryType(), "bytes", b"\x00\xff", "AP8="),
    (s.DATE, pa.date32(), T.DateType(), {"type": "int", "logicalType": "date"}, AT.date(), 20_455),
    (s.TIME, pa.time64("ns"), T.TimeType(6), {"type": "int", "logicalType": "time-millis"}, AT.time(), 11_045_678),
    (
        s.TIMESTAMP, pa.timestamp("us", "UTC"), T.TimestampType(), {"type": "long", "logicalType": "timestamp-millis"},
        AT, 1_767_323_045_678,
    ),
    (
        s.decimal(2, 9), pa.decimal128(9, 2), T.DecimalType(9, 2),
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("12.34"), "BNI=",
    ),
]  # fmt: skip
_IDS = [str(case[1]) for case in CASES]


def test_every_type_of_the_table_is_a_case() -> None:
    assert [of_connect(case[0].type, case[0].name) for case in CASES] == list(TYPES)


@pytest.mark.parametrize(("schema", "arrow", "spark", "avro", "value", "json"), CASES, ids=_IDS)
def test_types_and_values_agree_in_all_formats(
    schema: Schema, arrow: pa.DataType, spark: Any, avro: Any, value: Any, json: Any
) -> None:
    nested = Schema.struct({"all": Schema.array(schema.optional()), "by": Schema.map(s.STRING, schema.optional())})
    compound = pa.struct([("all", pa.list_(pa.field("element", arrow))), ("by", pa.map_(pa.string(), arrow))])
    assert (arrow_type(schema), arrow_type(nested)) == (arrow, compound)
    of_spark = schema_of_column(compound, "c", is_of_spark=True)
    assert of_spark == Schema.struct({field.name: field.schema.optional() for field in nested.fields})
    assert schema_of_column(to_arrow_type(spark, timezone="UTC"), "c", is_of_spark=True) == schema
    written = connect_schema(spark)
    assert (written.type, written.name, written.is_optional) == (schema.type, schema.name, True)
    if avro is not None:
        assert arrow_type_of_avro(parsed(orjson.dumps(avro).decode())) == arrow
    assert pa.array([value], arrow).to_pylist() == [value]
    converter = JsonConverter({"schemas.enable": "true", "converter.type": "value"})
    data = converter.from_connect_data("t", schema, value)
    assert data is not None
    assert orjson.loads(data)["payload"] == json
    assert converter.to_connect_data("t", data) == (schema, value)
    assert converter.to_column([data, data]) == (schema, [value, value])
    assert converter.from_column(schema, [value]) == [data]


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (pa.uint8(), s.INT16), (pa.uint16(), s.INT32), (pa.uint32(), s.INT64), (pa.large_string(), s.STRING),
        (pa.string_view(), s.STRING), (pa.large_binary(), s.BYTES), (pa.binary_view(), s.BYTES),
        (pa.binary(4), s.BYTES), (pa.date64(), s.DATE), (pa.time32("s"), s.TIME), (pa.timestamp("s"), s.TIMESTAMP),
        (pa.decimal256(60, 3), s.decimal(3)), (pa.large_list(pa.int8()), Schema.array(s.INT8.optional())),
        (pa.list_(pa.int8(), 2), Schema.array(s.INT8.optional())), (pa.dictionary(pa.int8(), pa.string()), s.STRING),
        (pa.map_(pa.int8(), pa.int8()), Schema.map(s.INT8, s.INT8.optional())),
    ],
    ids=str,
)  # fmt: skip
def test_other_arrow_types_of_the_same_values_have_its_schema(kind: pa.DataType, schema: Schema) -> None:
    assert schema_of_column(kind, "c") == schema


def test_a_map_of_spark_needs_keys_of_text() -> None:
    with pytest.raises(SchemaError, match="column c: Kafka Connect has no type"):
        schema_of_column(pa.map_(pa.int8(), pa.int8()), "c", is_of_spark=True)
