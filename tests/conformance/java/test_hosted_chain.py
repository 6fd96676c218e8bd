"""Records that cross between a Python connector and Java classes in its chain, in a real host."""

import contextlib
import datetime as dt
import gzip
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.api import ConnectRecord, Header, RecordError, Schema, SinkRecord, SourceRecord, TopicPartition
from fencepost.builtin.java.client.host import JavaHost
from fencepost.builtin.java.client.session import HostedSteps
from fencepost.builtin.java.client.value_writer import MOST_DEPTH
from fencepost.builtin.java.error import JavaError, JavaRetriableError
from fencepost.builtin.java.port import ChainStart, ChainStep, HostOptions, JavaClass, Location
from fencepost.builtin.java.start import start_host
from fencepost.hook.hosted_chain import RAW, Passed, Refused
from fencepost.record.schema import BYTES, DATE, FLOAT32, INT32, INT64, STRING, TIME, TIMESTAMP, decimal
from fencepost.record.type_table import SchemaType
from support.debezium import put_source
from support.kafka_values import FIXTURES, answer, meaning
from support.quick import QUICK
from support.schemas import schemas, values_of

TRANSFORMS = "org.apache.kafka.connect.transforms."
JSON = JavaClass("org.apache.kafka.connect.json.JsonConverter")
_IN_ANY_ORDER = {'{"a":[{"b":1},{"c":2}]}', '{"a":[{"b":1,"c":2},{"c":3,"b":4}]}'}
"""Texts that EventRouter expands to structs of several fields in an array: the only ones in the recorded cases."""
_SAME_HASHES = ("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")
Opened = Callable[..., HostedSteps]


@pytest.fixture(scope="module")
def opened(host: JavaHost) -> Iterator[Opened]:
    made: list[HostedSteps] = []

    def opened(*steps: ChainStep, is_source: bool = True, **config: str) -> HostedSteps:
        own = {key.replace("_", "."): value for key, value in config.items()}
        made.append(host.chain(ChainStart("made-0", is_source, own, steps)))
        return made[-1]

    yield opened
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def nothing(opened: Opened) -> HostedSteps:
    """A chain without steps: what crosses comes back."""
    return opened()


def passed(chain: HostedSteps, records: Sequence[ConnectRecord], first: int = 0, end: int = 0) -> list[ConnectRecord]:
    found = chain.run(records, first, end, None)
    assert isinstance(found, Passed), found
    return list(found.records)


def record(value: Any = None, schema: Schema | None = None, **more: Any) -> SourceRecord:
    return SourceRecord({"file": "a"}, {"line": 1}, "t", value, schema, **more)


@st.composite
def typed(draw: st.DrawFn) -> tuple[Schema, Any]:
    schema = draw(schemas())
    return schema, draw(values_of(schema))


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.text(st.characters(categories=["Cs"]), min_size=1, max_size=1)
    | st.binary(max_size=8)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.datetimes(timezones=st.just(dt.UTC)).map(lambda each: each.replace(microsecond=1000)),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=4), parts, max_size=3),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(typed() | st.tuples(st.none(), plain), typed() | st.tuples(st.none(), plain)), max_size=4))
def test_values_of_all_types_are_unchanged_after_java(nothing: HostedSteps, pairs: Any) -> None:
    records = [
        record(value, schema, key=key, key_schema=key_schema, timestamp=number or None, kafka_partition=number or None)
        for number, ((schema, value), (key_schema, key)) in enumerate(pairs)
    ]
    assert passed(nothing, records) == records


@pytest.mark.parametrize("text", ["", "é", "\U0001f600", "\ud800", "x\udc00", "a\ud83d b\ude00", "\0"])
def test_texts_with_lone_surrogates_are_unchanged_after_java(nothing: HostedSteps, text: str) -> None:
    records = [
        record(text, STRING, key={text: [text]}, headers=(Header(text, text, STRING), Header(text, text))),
        record("next", STRING),
    ]
    assert passed(nothing, records) == records


def test_extreme_numbers_dates_and_times_are_unchanged_after_java(nothing: HostedSteps) -> None:
    values = [
        (INT64, -(2**63)), (FLOAT32, 3.5), (FLOAT32, math.inf), (decimal(-3), Decimal("1.2E+4")),
        (decimal(2), Decimal("-0.01")), (TIMESTAMP, dt.datetime(1, 1, 1, tzinfo=dt.UTC)), (DATE, dt.date(9999, 12, 31)),
        (TIME, dt.time(23, 59, 59, 999000)), (None, 2**200), (None, Decimal("1E+400")), (None, -0.0),
    ]  # fmt: skip
    records = [record(value, schema) for schema, value in values]
    found = passed(nothing, records)
    assert found == records
    assert math.copysign(1, found[-1].value) == -1
    assert math.isnan(passed(nothing, [record(math.nan)])[0].value)


def test_timestamp_out_of_pythons_range_is_returned_as_its_number(nothing: HostedSteps) -> None:
    [found] = passed(nothing, [record(2**60, TIMESTAMP)])
    assert found.value == 2**60


def test_positions_and_headers_of_records_are_unchanged_after_java(opened: Opened) -> None:
    header = Header("n", 3, INT32)
    at = TopicPartition("read", 2)
    sink = SinkRecord("t", 5, 17, "v", STRING, None, None, 1_700_000_000_123, (header, header), at)
    chain = opened(is_source=False)
    assert passed(chain, [sink, sink.replace(timestamp=None)]) == [sink, sink.replace(timestamp=None)]
    assert passed(chain, []) == []


@pytest.mark.parametrize(
    ("schema", "value"),
    [(INT32, 2**31), (INT32, "1"), (STRING, 1), (BYTES, "a"), (Schema.array(INT32), 3), (None, object()),
     (Schema.struct({"a": INT32}), [1]), (decimal(2), 1.5), (SchemaType.BOOLEAN, 1)],
)  # fmt: skip
def test_value_that_does_not_fit_its_schema_is_refused_before_it_is_sent(
    nothing: HostedSteps, schema: Any, value: Any
) -> None:
    declared = Schema(schema) if isinstance(schema, SchemaType) else schema
    with pytest.raises(RecordError):
        nothing.run([record(value, declared)], 0, 0, None)
    assert passed(nothing, [record("fine")]) == [record("fine")]


@pytest.fixture
def calls() -> Iterator[None]:
    """As many calls of functions as a slot allows."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(4_000)
    yield
    sys.setrecursionlimit(before)


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.usefixtures("calls")
def test_value_that_a_transform_nests_too_deep_fails_only_its_record(opened: Opened) -> None:
    hoist = opened(transform("HoistField$Value"), **{"transforms.a.field": "f"})
    deepest = nested(MOST_DEPTH - 1)
    assert passed(hoist, [record(deepest)]) == [record(deepest)]
    assert passed(hoist, [record(deepest[0])], 0, 1)[0].value == {"f": deepest[0]}
    found = hoist.run([record("a"), record(deepest), record("b")], 0, 1, None)
    assert isinstance(found, Refused)
    assert (found.row, found.step) == (1, 0)
    assert "nested more than 500 levels deep" in str(found.error)
    rest = hoist.skip()
    assert isinstance(rest, Passed)
    assert [each.value for each in rest.records] == [{"f": "a"}, {"f": "b"}]


def test_negative_timestamp_is_none_or_refused_as_in_kafka_connect(opened: Opened) -> None:
    """As Kafka Connect does: -1 is no time, and others below 0 are none that a record can have."""
    route = opened(transform("RegexRouter"), **{"transforms.a.regex": ".*", "transforms.a.replacement": "t"})
    given = [record("a", timestamp=-1), record("b", timestamp=0), record("c", timestamp=-2)]
    found = route.run(given, 0, 1, None)
    assert isinstance(found, Refused)
    assert (found.row, found.step) == (2, 0)
    assert "-2" in str(found.error)
    rest = route.skip()
    assert isinstance(rest, Passed)
    assert [each.timestamp for each in rest.records] == [None, 0]


def test_equal_schemas_are_one_object_in_all_batches(nothing: HostedSteps) -> None:
    schema = Schema.struct({"a": INT32})
    first, second = (passed(nothing, [record({"a": 1}, replace(schema))])[0] for _ in range(2))
    assert first.value_schema is second.value_schema


def transform(name: str, **own: str) -> ChainStep:
    return ChainStep("transform", JavaClass(TRANSFORMS + name), "transforms.a.", **own)  # type: ignore[arg-type]


def test_predicates_and_filters_choose_records_as_in_java(opened: Opened) -> None:
    predicate = JavaClass(TRANSFORMS + "predicates.RecordIsTombstone")
    choose = ChainStep("choose", predicate, "predicates.p.", is_negated=True)
    route = ChainStep("transform", JavaClass(TRANSFORMS + "RegexRouter"), "transforms.a.", is_conditional=True)
    drop = ChainStep("transform", JavaClass(TRANSFORMS + "Filter"), "transforms.b.", is_conditional=True)
    config = {"transforms.a.regex": ".*", "transforms.a.replacement": "routed"}
    chain = opened(choose, route, choose, drop, **config)
    records = [record("v"), record(None), record("w")]
    routed = chain.run(records, 0, 2, None)
    assert isinstance(routed, Passed)
    assert [(each.topic, chosen) for each, chosen in zip(routed.records, routed.is_chosen, strict=True)] == [
        ("routed", True), ("t", False), ("routed", True)
    ]  # fmt: skip
    filtered = chain.run(records, 3, 4, [False, True, True])
    assert isinstance(filtered, Passed)
    assert (list(filtered.rows), [each.value for each in filtered.records]) == ([0], ["v"])


def test_chain_stops_at_the_first_error_and_continues_as_python_decides(opened: Opened, plugins: Location) -> None:
    once = ChainStep("transform", JavaClass("tests.Once", plugins), "transforms.a.")
    picky = ChainStep("transform", JavaClass("tests.Picky", plugins), "transforms.b.")
    chain = opened(once, picky)
    records = [record(value, STRING) for value in ("a", "bad", "c")]
    found = chain.run(records, 1, 2, None)
    assert isinstance(found, Refused)
    assert (found.row, found.step) == (1, 1)
    assert isinstance(found.error, JavaError)
    again = chain.again()
    assert isinstance(again, Refused)
    assert again.row == 1
    rest = chain.skip()
    assert isinstance(rest, Passed)
    assert list(rest.rows) == [0, 2]


@pytest.mark.parametrize(("value", "kind"), [("later", JavaRetriableError), ("late", JavaError)])
def test_only_connects_retriable_exception_makes_a_step_retriable(
    opened: Opened, plugins: Location, value: str, kind: type[Exception]
) -> None:
    picky = ChainStep("transform", JavaClass("tests.Picky", plugins), "transforms.b.")
    found = opened(picky, transforms_b_troubles="1").run([record(value, STRING)], 0, 1, None)
    assert isinstance(found, Refused)
    assert type(found.error) is kind


def test_converters_of_a_source_make_bytes_and_converters_of_a_sink_make_values(opened: Opened) -> None:
    steps = [ChainStep(role, JSON, f"{role}.converter.") for role in ("header", "key", "value")]
    given = record({"a": 1}, Schema.struct({"a": INT32}), key="k", headers=(Header("h", True),))
    [found] = passed(opened(*steps), [given], 0, 3)
    assert [found.key_schema, found.value_schema, found.headers[0].schema] == [RAW, RAW, RAW]
    assert found.value_schema is RAW
    assert json.loads(found.value)["payload"] == {"a": 1}
    read = SinkRecord("t", 0, 1, found.value, RAW, found.key, RAW, headers=found.headers, at=TopicPartition("t", 0))
    in_order = [*steps[1:], steps[0]]
    [back] = passed(opened(*in_order, is_source=False), [read], 0, 3)
    assert (back.value, back.value_schema, back.key) == ({"a": 1}, given.value_schema, "k")
    assert (back.headers[0].key, back.headers[0].value) == ("h", True)


def test_value_converter_leaves_records_with_unconverted_headers_unchanged(opened: Opened) -> None:
    chain = opened(ChainStep("value", JSON, "value.converter."))
    found = passed(chain, [record("a", STRING), record("b", STRING, headers=(Header("h", 1, INT32),))], 0, 1)
    assert [each.value_schema is RAW for each in found] == [True, False]


CASES = [
    case for case in json.loads((FIXTURES / "connect-4.3.1" / "values.json").read_text())
    if "transform" in case and "differs" not in case
]  # fmt: skip


OF_DEBEZIUM = [
    case
    for case in json.loads(gzip.decompress((FIXTURES / "debezium-3.6.1" / "values.json.gz").read_bytes()))
    if "value" in case
]


class InJava:
    """Applies transforms in Java, each in a chain of its own: some remember what they have seen."""

    def __init__(self, host: JavaHost, location: Location | None = None) -> None:
        self._host = host
        self._location = location

    def __call__(self, given: dict[str, str], record: ConnectRecord) -> ConnectRecord | None:
        config = {f"transforms.a.{key}": value for key, value in given.items() if key != "type"}
        step = ChainStep("transform", JavaClass(given["type"], self._location), "transforms.a.")
        try:
            chain = self._host.chain(ChainStart("made-0", isinstance(record, SourceRecord), config, [step]))
        except JavaError as error:
            raise RecordError(str(error)) from error
        with contextlib.closing(chain):
            found = chain.run([record], 0, 1, None)
        if isinstance(found, Refused):
            raise RecordError(str(found.error))
        return found.records[0] if found.records else None


def test_kafkas_transforms_have_the_same_results_from_python_as_in_java(host: JavaHost) -> None:
    """The golden cases: Python's JSON converter ▸ Java's transform ▸ Python's JSON converter."""
    in_java = InJava(host)
    wrong = [case for case in CASES if meaning(answer(case, in_java), case) != meaning(case["answer"], case)]
    assert not wrong, (len(wrong), len(CASES), wrong[:5])


@pytest.fixture
def same_hashes(host: JavaHost) -> Iterator[JavaHost]:
    """A host in which objects without a hash of their own all have the same, and not another one in each run."""
    with start_host(HostOptions([QUICK, *_SAME_HASHES], "host of tests")) as started:
        yield started


def test_debeziums_transforms_have_the_same_results_from_python_as_in_java(
    same_hashes: JavaHost, tmp_path: Path
) -> None:
    """The golden cases of ExtractNewRecordState and the outbox EventRouter, those that differ in Python included.

    EventRouter orders the fields of structs in an array by a hash, which is another one in another JVM, and of fields
    of one name but other types it keeps those that come first.
    """
    put_source("postgres", tmp_path)
    plugin = tmp_path / "debezium-connector-postgres"
    in_java = InJava(same_hashes, Location(str(plugin), tuple(sorted(map(str, plugin.glob("*.jar"))))))
    found = [(meaning(answer(case, in_java), case), meaning(case["answer"], case), case) for case in OF_DEBEZIUM]
    wrong = [each for each in found if each[0] != each[1]]
    assert [each for each in wrong if unordered(each[0]) != unordered(each[1])] == []
    assert {json.loads(case["value"])["payload"]["after"]["payload"] for _, _, case in wrong} <= _IN_ANY_ORDER
    assert len(wrong) < 10


def unordered(meant: Any) -> Any:
    """Return what an answer means without the order of the fields in its schemas."""
    if isinstance(meant, tuple | list):
        return [unordered(each) for each in meant]
    if isinstance(meant, dict) and meant.keys() == {"schema", "payload"}:
        return meant | {"schema": _sorted_fields(meant["schema"])}
    return meant


def _sorted_fields(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    found = {key: _sorted_fields(value) for key, value in schema.items()}
    if "fields" in found:
        fields = map(_sorted_fields, found["fields"])
        found["fields"] = sorted(fields, key=lambda field: json.dumps(field, sort_keys=True, default=str))
    return found
