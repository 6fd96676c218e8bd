"""Arrow batches as records."""

from decimal import Decimal

import orjson
import pyarrow as pa
import pytest

from fencepost.config import ConfigError
from fencepost.spark.row.columns import RecordMaker, check_types


def test_columns_of_sparks_kafka_sink_set_the_fields_of_records() -> None:
    batch = pa.record_batch(
        {
            "value": pa.array(["a", None]),
            "key": pa.array([b"k", None], pa.binary()),
            "topic": pa.array(["t", "u"]),
            "partition": pa.array([1, None], pa.int32()),
            "headers": pa.array([[{"key": "h", "value": b"x"}], None]),
        }
    )
    out = RecordMaker(batch.schema.names, None).outgoing(batch)
    assert (list(out.topics), list(out.values)) == (["t", "u"], [b"a", None])
    assert list(out.keys or ()) == [b"k", None]
    assert (out.partitions, out.headers) == ([1, None], [[("h", b"x")], []])


def test_topic_option_wins_and_slices_are_respected() -> None:
    batch = pa.record_batch({"value": pa.array(["a", "b", "c"])}).slice(1, 2)
    out = RecordMaker(["value"], "t").outgoing(batch)
    assert (list(out.topics), list(out.values), out.keys) == (["t", "t"], [b"b", b"c"], None)


def test_rows_without_a_value_column_are_json_objects() -> None:
    batch = pa.record_batch({"a": pa.array([1, None]), "b": pa.array([Decimal("1.50"), None]), "c": [b"x", None]})
    out = RecordMaker(batch.schema.names, "t").outgoing(batch)
    assert out.values[0] == b'{"a":1,"b":1.50,"c":"eA=="}'
    assert orjson.loads(out.values[1] or b"") == {"a": None, "b": None, "c": None}


@pytest.mark.parametrize(
    ("names", "topic", "message"),
    [
        (["value"], None, "option topic is missing"),
        (["a"], None, "option topic is missing"),
        (["value", "a"], "t", "column a is not allowed in a frame with value"),
    ],
)
def test_missing_or_unknown_columns_are_refused(names: list[str], topic: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RecordMaker(names, topic)


def test_types_are_checked_before_any_row_is_read() -> None:
    check_types({"a": "double"})
    with pytest.raises(ConfigError, match="column partition is string: it must be int"):
        check_types({"value": "string", "partition": "string"})
