"""Values of each schema that PostgresSink writes, with the type of the column that it creates, and their text there."""

import datetime as dt
from decimal import Decimal
from typing import Any

from fencepost.api import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    SchemaType,
    decimal,
)
from fencepost.builtin.postgres.envelope.meaning import VARIABLE


def debezium(name: str, type_: SchemaType = SchemaType.INT64, **parameters: str) -> Schema:
    return Schema(type_, name=f"io.debezium.{name}", parameters=tuple(parameters.items()))


VALUES: list[tuple[Schema, Any, str, str]] = [
    (INT64, -(2**63), "bigint", "-9223372036854775808"),
    (FLOAT64, 1e22, "double precision", "1e+22"),
    (FLOAT64, float("nan"), "double precision", "NaN"),
    (BOOLEAN, False, "boolean", "false"),
    (STRING, "a\tb\\N\n\r'\"ü😀", "text", "a\tb\\N\n\r'\"ü😀"),
    (BYTES, b"\x00\\\xff", "bytea", "\\x005cff"),
    (decimal(2, 9), Decimal("-1.50"), "numeric(9,2)", "-1.50"),
    (DATE, dt.date(987, 1, 2), "date", "0987-01-02"),
    (TIME, dt.time(1, 2, 3, 4000), "time without time zone", "01:02:03.004"),
    (TIMESTAMP, dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC), "timestamp without time zone", "2024-07-01 14:00:00"),
    (debezium("time.Date", SchemaType.INT32), -800_000, "date", "0222-09-04 BC"),
    (debezium("time.Date", SchemaType.INT32), -2_147_472_692, "date", "infinity"),
    (debezium("time.MicroTime"), 86_399_999_999, "time without time zone", "23:59:59.999999"),
    (debezium("time.MicroTimestamp"), -1, "timestamp without time zone", "1969-12-31 23:59:59.999999"),
    (debezium("time.MicroTimestamp"), 9_223_372_036_825_200_000, "timestamp without time zone", "infinity"),
    (
        debezium("time.ZonedTimestamp", SchemaType.STRING), "2024-01-01T00:00:00.5+02:00", "timestamp with time zone",
        "2023-12-31 22:00:00.5+00",
    ),
    (debezium("time.MicroDuration"), -1_500_000, "interval", "-00:00:01.5"),
    (debezium("time.Interval", SchemaType.STRING), "P1Y2M3DT4H5M6.78S", "interval", "1 year 2 mons 3 days 04:05:06.78"),
    (debezium("data.Json", SchemaType.STRING), '{"a": "\\n"}', "jsonb", '{"a": "\\n"}'),
    (
        debezium("data.Uuid", SchemaType.STRING), "0b0ec0de-0000-0000-0000-000000000001", "uuid",
        "0b0ec0de-0000-0000-0000-000000000001",
    ),
    (debezium("data.Bits", SchemaType.BYTES, length="10"), b"\x05\x02", "bit(10)", "1000000101"),
    (VARIABLE, {"scale": 3, "value": b"\xff"}, "numeric", "-0.001"),
    (Schema.array(STRING.optional()), ['a"b\\', None, "NULL", ""], "text[]", '{"a\\"b\\\\",NULL,"NULL",""}'),
    (Schema.array(INT32), [1, 2], "integer[]", "{1,2}"),
    (Schema.map(STRING, INT32), {"a": 1}, "jsonb", '{"a": 1}'),
]  # fmt: skip
