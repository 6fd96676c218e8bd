"""The form in which records cross to Java, as far as this side reads what it has written."""

import datetime as dt
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import pytest

from fencepost.api import RecordError, Schema, SinkRecord, SourceRecord
from fencepost.builtin.java.client.crossing import Crossing
from fencepost.builtin.java.client.value_writer import MOST_DEPTH
from fencepost.record.schema import FLOAT32, INT32, STRING

CALLS_OF_A_SLOT = 4_000


@pytest.fixture(autouse=True)
def calls() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(CALLS_OF_A_SLOT)
    yield
    sys.setrecursionlimit(before)


def nested(levels: int, name: str | None = None) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value] if name is None else {name: value}
    return value


def mixed(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value, None, 1]
    return value


def record(value: Any, schema: Schema | None = None) -> SourceRecord:
    return SourceRecord({"f": 1}, {"at": 1}, "t", value, schema)


def crossed(value: Any, schema: Schema | None = None) -> Any:
    crossing, given = Crossing(), [record(value, schema)]
    buffers = dict(crossing.written(given))
    [found] = crossing.read(memoryview(buffers["schemas"]), memoryview(buffers["records"]), given)
    return found.value


def deepest(schema: Schema, levels: int) -> Schema:
    for _ in range(levels):
        schema = Schema.array(schema)
    return schema


@pytest.mark.parametrize("name", [None, "a"])
def test_the_deepest_value_that_is_written_can_be_read(name: str | None) -> None:
    assert crossed(nested(MOST_DEPTH - 1, name)) == nested(MOST_DEPTH - 1, name)


def test_the_deepest_value_of_several_kinds_that_is_written_can_be_read() -> None:
    assert crossed(mixed(MOST_DEPTH - 1)) == mixed(MOST_DEPTH - 1)


def test_the_deepest_value_with_a_schema_that_is_written_can_be_read() -> None:
    assert crossed(nested(MOST_DEPTH - 1), deepest(STRING, MOST_DEPTH - 1)) == nested(MOST_DEPTH - 1)


@pytest.mark.parametrize("levels", [MOST_DEPTH, 700, 850, 1_000, 5_000])
def test_value_nested_deeper_than_the_limit_is_refused(levels: int) -> None:
    for value, schema in (
        (nested(levels), None),
        (mixed(levels), None),
        (nested(levels), deepest(STRING, levels)),
        (nested(levels, "a"), None),
    ):
        with pytest.raises(RecordError, match="nested more than 500 levels deep"):
            crossed(value, schema)


def test_value_is_refused_when_the_recursion_limit_is_too_low() -> None:
    sys.setrecursionlimit(1_000)
    with pytest.raises(RecordError, match="recursion"):
        crossed(nested(MOST_DEPTH - 1))


def ring() -> Any:
    ring: list[Any] = []
    ring.append(ring)
    return ring


def rings() -> Any:
    rings: dict[str, Any] = {}
    rings |= {"self": rings, "list": [rings, rings]}
    return rings


def children_with_their_parent() -> Any:
    parent: dict[str, Any] = {}
    parent["children"] = [{"parent": parent} for _ in range(1_000)]
    return parent


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [ring, rings, children_with_their_parent])
def test_a_value_that_contains_itself_is_refused(make: Callable[[], Any]) -> None:
    """However often: there are more of it at each level."""
    with pytest.raises(RecordError, match="nested more than 500 levels deep"):
        crossed(make())


def test_object_contained_in_a_value_several_times_crosses_to_java() -> None:
    shared = [{"a": 1}]
    for _ in range(12):
        shared = [shared, shared]
    assert crossed(shared) == shared


def test_integers_of_an_int_subclass_cross_to_java() -> None:
    """In a child, which can be ended: to look for such a number in a range goes through all of it."""
    code = (
        "from http import HTTPStatus; from fencepost.api import SourceRecord;"
        "from fencepost.storage import offset_topic; from fencepost.builtin.java.client.crossing import Crossing;"
        "Crossing().written([SourceRecord({'p': HTTPStatus.OK}, {}, 't', [HTTPStatus.OK])]);"
        "print(offset_topic.encode('c', {'p': HTTPStatus.OK}, None)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=120, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == """b'["c",{"p":200}]'"""
    assert crossed(HTTPStatus.OK) == 200


@pytest.mark.parametrize(
    ("value", "schema"),
    [(Decimal("1" * 5_000), None), ("x", Schema.struct({"a": Schema(STRING.type, default=1)}))],
    ids=["a decimal of more digits than Python reads", "a default that does not fit"],
)
def test_value_without_a_wire_form_is_refused_with_and_without_a_schema(value: Any, schema: Schema | None) -> None:
    with pytest.raises(RecordError):
        crossed(value, schema)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (dt.datetime(2020, 1, 1), dt.date(2020, 1, 1)),
        (dt.datetime(2020, 1, 1, microsecond=1), dt.datetime(2020, 1, 1, microsecond=2)),
        (dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)),
    ],
)
def test_map_with_time_keys_that_are_equal_in_java_is_refused(first: Any, second: Any) -> None:
    with pytest.raises(RecordError, match="the same time in Java"):
        crossed({first: 1, second: 2})
    assert len(crossed({first: 1, "a": 2, 3: 4})) == 3


@pytest.mark.parametrize(
    ("keys", "schema"), [((0.1, 0.1 + 1e-12), Schema.map(FLOAT32, INT32)), ((math.nan, float("nan")), None)]
)
def test_map_with_float_keys_that_are_equal_in_java_is_refused(keys: Any, schema: Schema | None) -> None:
    with pytest.raises(RecordError, match="the same number in Java"):
        crossed(dict.fromkeys(keys, 1), schema)
    assert len(crossed({0.5: 1, 0.25: 2, keys[0]: 3}, schema)) == 3


def test_deeply_nested_sink_record_is_refused() -> None:
    deep = SinkRecord("t", 0, 1, nested(1_000), None)
    with pytest.raises(RecordError, match="nested"):
        Crossing(is_source=False).written([deep])
