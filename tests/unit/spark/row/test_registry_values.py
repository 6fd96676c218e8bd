"""Rows of a query as values that a converter writes, with the schema of the columns."""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from fencepost.api import Converter, RecordError, Schema, SchemaType
from fencepost.config import ConfigError
from fencepost.record.schema import DATE, TIME, TIMESTAMP
from fencepost.spark.row.registry_columns import RegistryBytes

_MICROS = dt.datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=dt.UTC)


class _Converter(Converter):
    """Notes what it is given. It refuses columns with the value "slow", and the value "bad"."""

    topic = ""
    seen: list[tuple[str, Schema | None, Any]]

    def for_topic(self, topic: str) -> "_Converter":
        made = _Converter()
        made.topic, made.seen = topic, self.seen
        return made

    def from_column(self, schema: Schema | None, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        if any(value in ("slow", "bad") for value in values):
            return None
        self.seen.append((self.topic, schema, list(values)))
        return [None if value is None else f"{self.topic}:{value}".encode() for value in values]

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value == "bad":
            raise RecordError("it is bad")
        return f"{topic}/{value}".encode()

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        raise NotImplementedError


@pytest.fixture
def converter() -> _Converter:
    made = _Converter()
    made.seen = []
    return made


def test_rows_of_several_topics_keep_their_order(converter: _Converter) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"value": ["a", None, "b", "c"], "topic": ["t", "u", "u", "t"], "key": list("klmn")}
    )
    made = RegistryBytes(converter, None).written(batch)
    assert made.to_pydict() == {
        "value": [b"t:a", None, b"u:b", b"t:c"], "topic": ["t", "u", "u", "t"], "key": list("klmn"),
    }  # fmt: skip
    assert {topic for topic, *_ in converter.seen} == {"t", "u"}


def test_row_without_a_topic_is_refused_before_the_registry_is_called(converter: _Converter) -> None:
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b"], "topic": ["t", None]})
    with pytest.raises(ConfigError, match="rows without a topic"):
        RegistryBytes(converter, None).written(batch)
    assert converter.seen == []


def test_a_column_that_is_refused_is_written_value_by_value(converter: _Converter) -> None:
    writing = RegistryBytes(converter, "t")
    assert writing.written(pa.RecordBatch.from_pydict({"value": ["slow", "b"]}))["value"].to_pylist() == [
        b"t/slow",
        b"t/b",
    ]
    with pytest.raises(RecordError, match="it is bad"):
        writing.written(pa.RecordBatch.from_pydict({"value": ["a", "bad"]}))


def test_column_values_become_values_of_connect(converter: _Converter) -> None:
    rows = [
        {
            "at": _MICROS,
            "m": [("k", [1, None])],
            "d": Decimal("1.50"),
            "s": {"day": dt.date(2026, 1, 2), "t": dt.time(1)},
        },
        {"at": None, "m": None, "d": None, "s": None},
    ]
    kind = pa.struct(
        {
            "at": pa.timestamp("us", "UTC"), "m": pa.map_(pa.string(), pa.list_(pa.int32())), "d": pa.decimal128(9, 2),
            "s": pa.struct({"day": pa.date32(), "t": pa.time64("ns")}),
        }
    )  # fmt: skip
    # A part of a longer column, as Spark's batches may be.
    column = pa.concat_arrays([pa.array(rows[::-1], kind), pa.array(rows, kind)]).slice(2)
    RegistryBytes(converter, "t").written(pa.RecordBatch.from_arrays([column], names=["value"]))
    [(_, schema, found)] = converter.seen
    assert found == [
        {**rows[0], "at": 1_767_323_045_678, "m": {"k": [1, None]}},
        {"at": None, "m": None, "d": None, "s": None},
    ]
    assert schema is not None
    fields = {field.name: field.schema for field in schema.fields}
    assert not schema.is_optional
    assert fields["at"] == TIMESTAMP.optional()
    assert dict(fields["d"].parameters) == {"scale": "2", "connect.decimal.precision": "9"}
    assert [field.schema for field in fields["s"].fields] == [DATE.optional(), TIME.optional()]
    assert fields["m"].key_schema == Schema(SchemaType.STRING)


def test_timestamps_before_1970_are_rounded_down_and_any_year_works(converter: _Converter) -> None:
    column = pa.array([-1, 400_000_000_000_000_000], pa.int64()).view(pa.timestamp("us"))
    RegistryBytes(converter, "t").written(pa.RecordBatch.from_arrays([column], names=["value"]))
    assert converter.seen[0][2] == [-1, 400_000_000_000_000]


def test_a_column_without_a_schema_is_refused(converter: _Converter) -> None:
    column = pa.nulls(1, pa.struct({"took": pa.duration("us")}))
    with pytest.raises(ConfigError, match=r"value\.took: .*duration\[us\]; cast the column in transforms\.sql"):
        RegistryBytes(converter, "t").written(pa.RecordBatch.from_arrays([column], names=["value"]))
