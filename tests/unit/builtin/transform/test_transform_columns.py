"""Transforms of batches of columns: what they do is what they do record by record, or they refuse the batch.

Every transform of Kafka Connect is tried with all its options on batches that Hypothesis makes up. A batch may be
refused only where it is unusual: how many are not is also a test.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import Predicate, Record, Schema, Transform
from fencepost.builtin.transform.chain import Chain, Link
from fencepost.builtin.transform.insert_field import InsertFieldValue
from fencepost.builtin.transform.java_date import SimpleDateFormat
from fencepost.builtin.transform.mask_field import MaskFieldValue
from fencepost.builtin.transform.predicate import TopicNameMatches
from fencepost.plugin import find
from fencepost.record import BinaryColumn, HeaderColumn, RecordColumns, Repeated, StructColumn, TypedColumn, Utf8Column
from fencepost.record.schema import INT64, STRING
from support.column_records import NAMES, batches, by_columns, by_records

Settings = Mapping[str, str]

_names = st.sampled_from((*NAMES, "z"))
_some = st.lists(_names, unique=True, min_size=1, max_size=3)
_flag = st.sampled_from(("true", "false"))
_listed = _some.map(",".join)
_TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
_PATTERNS = ("yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "SSS s '%d' EEE D", "MMM d, yyyy G", "ss:SSS:s")


def _options(**given: st.SearchStrategy[str]) -> st.SearchStrategy[Settings]:
    """Return settings in which each option is there or is not, with `_` for dots."""
    named = {name.replace("_", "."): values for name, values in given.items()}
    return st.fixed_dictionaries({}, optional=named)


def _with(required: Settings | st.SearchStrategy[Settings], rest: st.SearchStrategy[Settings]) -> Any:
    first = required if isinstance(required, st.SearchStrategy) else st.just(required)
    return st.tuples(first, rest).map(lambda pair: {**pair[0], **pair[1]})


_nulls = _options(replace_null_with_default=_flag)
_cast = st.lists(st.tuples(_names, st.sampled_from(_TYPES)), unique_by=lambda pair: pair[0], min_size=1, max_size=3)
_marked = st.tuples(_names, st.sampled_from(("", "!", "?"))).map("".join)
_renames = st.dictionaries(_names, st.sampled_from(("a", "x", "y")), min_size=1, max_size=2)
_pairs = st.lists(st.tuples(_names, st.sampled_from(("h", "x"))), min_size=1, max_size=3)

SETTINGS: dict[str, st.SearchStrategy[Settings]] = {
    "Cast$": _with(
        st.one_of(
            _cast.map(lambda pairs: {"spec": ",".join(map(":".join, pairs))}),
            st.sampled_from(_TYPES).map(lambda kind: {"spec": kind}),
        ),
        _nulls,
    ),
    "DropHeaders": st.sampled_from(("h", "h,i", "x")).map(lambda names: {"headers": names}),
    "ExtractField$": _with(
        st.one_of(
            _names.map(lambda name: {"field": name}),
            st.sampled_from(("a.n", "b.t", "c")).map(lambda path: {"field": path, "field.syntax.version": "V2"}),
        ),
        _nulls,
    ),
    "Filter": st.just({}),
    "Flatten$": _options(delimiter=st.sampled_from((".", "_", ""))),
    "HeaderFrom$": _with(
        st.tuples(_pairs, st.sampled_from(("move", "copy"))).map(
            lambda given: {
                "fields": ",".join(field for field, _ in given[0]),
                "headers": ",".join(header for _, header in given[0]),
                "operation": given[1],
            }
        ),
        _nulls,
    ),
    "HoistField$": _names.map(lambda name: {"field": name}),
    "InsertField$": _with(
        _marked.map(lambda name: {"static.field": name, "static.value": "7"}),
        _with(
            _options(topic_field=_marked, partition_field=_marked, timestamp_field=_marked, offset_field=_marked),
            _nulls,
        ),
    ),
    "InsertHeader": st.sampled_from(("1", "x", "[1]")).map(lambda text: {"header": "h", "value.literal": text}),
    "MaskField$": _with(
        _listed.map(lambda names: {"fields": names}),
        _with(_options(replacement=st.sampled_from(("7", "x", "300"))), _nulls),
    ),
    "RegexRouter": st.sampled_from(
        ({"regex": "drop-(.*)", "replacement": "t-$1"}, {"regex": ".*", "replacement": "n"})
    ),
    "ReplaceField$": _with(
        _options(
            exclude=_listed, include=_listed, renames=_renames.map(lambda new: ",".join(map(":".join, new.items())))
        ),
        _nulls,
    ),
    "SetSchemaMetadata$": _with({"schema.name": "S"}, _with(_options(schema_version=st.just("3")), _nulls)),
    "TimestampConverter$": _with(
        st.tuples(st.sampled_from(("string", "unix", "Date", "Time", "Timestamp")), st.sampled_from(_PATTERNS)).map(
            lambda given: {"target.type": given[0], "format": given[1]}
        ),
        _with(
            _options(
                field=_names,
                unix_precision=st.sampled_from(("seconds", "milliseconds", "microseconds", "nanoseconds")),
            ),
            _nulls,
        ),
    ),
    "TimestampRouter": _options(
        topic_format=st.sampled_from(("${topic}-${timestamp}", "x")), timestamp_format=st.sampled_from(_PATTERNS)
    ),
    "ValueToKey": _with(_listed.map(lambda names: {"fields": names}), _nulls),
}
"""The options of all transforms; `$` stands for the two variants for keys and for values."""


def link(name: str, settings: Settings, **more: Any) -> Link:
    return Link("t", find("transform", name)(settings), **more)


def same(chain: Chain, batch: RecordColumns) -> bool:
    """Say whether the batch stays columns. The results of both ways must be the same then, and no record fails."""
    expected, found = by_records(chain, batch), by_columns(chain, batch)
    if found is None:
        return False
    assert found == expected
    return True


@pytest.mark.parametrize("name", sorted(SETTINGS))
@given(st.data())
def test_columns_are_transformed_as_records(name: str, data: st.DataObject) -> None:
    variant = name.replace("$", data.draw(st.sampled_from(("$Key", "$Value"))))
    settings = data.draw(SETTINGS[name])
    same(Chain([link(variant, settings)]), data.draw(batches(is_sink=data.draw(st.booleans()))))


PREDICATES: tuple[tuple[str, Settings], ...] = (
    ("TopicNameMatches", {"pattern": "drop-.*"}),
    ("RecordIsTombstone", {}),
    ("HasHeaderKey", {"name": "h"}),
)


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    links = []
    for _ in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(sorted(SETTINGS)))
        settings = draw(SETTINGS[name])
        more: dict[str, Any] = {}
        if name == "Filter" or draw(st.booleans()):
            kind, own = draw(st.sampled_from(PREDICATES))
            more = {"predicate": find("predicate", kind)(own), "is_negated": draw(st.booleans())}
        links.append(link(name.replace("$", draw(st.sampled_from(("$Value", "$Value", "$Key")))), settings, **more))
    return Chain(links)


@given(chains(), st.data())
def test_a_chain_with_predicates_transforms_columns_as_records(chain: Chain, data: st.DataObject) -> None:
    same(chain, data.draw(batches(is_sink=data.draw(st.booleans()))))


def batch(values: Sequence[Any], schema: Schema | None = None, **more: Any) -> RecordColumns:
    count = len(values)
    parts: dict[str, Any] = {
        "topics": Repeated("t", count),
        "value": TypedColumn(schema, values),
        "key": TypedColumn(None, Repeated(None, count)),
        "kafka_partitions": Repeated(None, count),
        "timestamps": [1_764_171_585_123 + 37_777 * n for n in range(count)],
        "headers": Repeated((), count),
        "rows": range(count),
    }
    return RecordColumns(**{**parts, **more})


ROWS = [{"a": n, "b": str(n), "c": {"n": n, "t": None}} for n in range(7)]
STRUCT = Schema.struct({"a": INT64, "b": STRING, "c": Schema.struct({"n": INT64, "t": STRING.optional()})})
USUAL: list[tuple[str, Settings]] = [
    ("Cast$Value", {"spec": "a:string,b:int64"}),
    ("Cast$Value", {"spec": "a:float32,b:int8"}),
    ("DropHeaders", {"headers": "h"}),
    ("ExtractField$Value", {"field": "b"}),
    ("ExtractField$Value", {"field": "c.n", "field.syntax.version": "V2"}),
    ("Filter", {}),
    ("Flatten$Value", {}),
    ("HeaderFrom$Value", {"fields": "a,b", "headers": "h,i", "operation": "move"}),
    ("HoistField$Value", {"field": "v"}),
    ("InsertField$Value", {"topic.field": "t", "timestamp.field": "at", "static.field": "s", "static.value": "v"}),
    ("InsertHeader", {"header": "h", "value.literal": "1"}),
    ("MaskField$Value", {"fields": "a,b"}),
    ("RegexRouter", {"regex": "t", "replacement": "u"}),
    ("ReplaceField$Value", {"exclude": "a", "renames": "b:x"}),
    ("SetSchemaMetadata$Value", {"schema.name": "N"}),
    ("TimestampConverter$Value", {"field": "a", "target.type": "string", "format": "yyyy-MM-dd HH:mm:ss.SSS"}),
    ("TimestampConverter$Value", {"field": "a", "target.type": "Timestamp"}),
    ("TimestampRouter", {}),
    ("ValueToKey", {"fields": "a"}),
]


@pytest.mark.parametrize("schema", [STRUCT, None], ids=["structs", "maps"])
@pytest.mark.parametrize(("name", "settings"), USUAL)
def test_an_ordinary_batch_stays_columns(name: str, settings: Settings, schema: Schema | None) -> None:
    chain = Chain([link(name, settings)])
    is_refused = name == "SetSchemaMetadata$Value" and schema is None  # every record fails
    for values in (ROWS, StructColumn.of_rows(ROWS)):
        assert values is not None
        assert same(chain, batch(values, schema)) is not is_refused


def of_lines(*lines: str) -> Utf8Column:
    """Return lines as FileStreamSource polls them: without an object for each."""
    return Utf8Column(BinaryColumn(pa.array([line.encode() for line in lines], pa.binary())))


def test_lines_become_structs_with_numbers_and_dates_and_stay_columns() -> None:
    chain = Chain(
        [
            link("HoistField$Value", {"field": "line"}),
            link("InsertField$Value", {"topic.field": "topic", "static.field": "shop", "static.value": "north"}),
            link("ReplaceField$Value", {"renames": "line:at"}),
            link("Cast$Value", {"spec": "at:int64"}),
            link("TimestampConverter$Value", {"field": "at", "target.type": "string", "format": "HH:mm:ss.SSS"}),
        ]
    )
    lines = of_lines("1764171585123", "1764171585160", "0")
    assert same(chain, batch(lines, STRING))
    [changed] = chain.apply_batch(batch(lines, STRING)) or []
    assert next(iter(changed.value.values)) == {"at": "15:39:45.123", "topic": "t", "shop": "north"}
    assert isinstance(changed.value.values, StructColumn)
    assert isinstance(changed.value.values.columns["topic"], Repeated)
    assert not same(chain, batch(of_lines("1764171585123", "0x1f"), STRING))


def test_texts_that_are_not_utf8_are_read_as_by_record() -> None:
    raw = BinaryColumn(pa.array([b"a\xe4", b"\xa4b", b"", b"a\nb"], pa.binary()))
    column = Utf8Column(raw)
    assert column.texts() == [column[index] for index in range(4)] == ["a\ufffd", "\ufffdb", "", "a\nb"]
    assert list(column[1:3]) == column.texts()[1:3]


def test_a_predicate_divides_a_batch_and_filtered_records_are_gone() -> None:
    topics = ["t", "drop-1", "t", "drop-2", "t"]
    chosen = TopicNameMatches({"pattern": "drop-.*"})
    drop = Chain([Link("f", find("transform", "Filter")({}), chosen)])
    one = batch(ROWS[:5], STRUCT, topics=topics)
    assert same(drop, one)
    [left] = drop.apply_batch(one) or []
    assert list(left.rows) == [0, 2, 4]
    mark = link("InsertField$Value", {"static.field": "s", "static.value": "v"}, predicate=chosen, is_negated=True)
    assert same(Chain([mark]), one)
    assert [list(part.rows) for part in Chain([mark]).apply_batch(one) or []] == [[0, 2, 4], [1, 3]]
    everything = Chain([Link("f", find("transform", "Filter")({}))])
    assert [len(part) for part in everything.apply_batch(one) or []] == [0]


def test_headers_that_are_bytes_stay_bytes() -> None:
    raw = [[("h", b"1"), ("i", None)], [], [("h", b"2")]]
    one = batch(ROWS[:3], headers=HeaderColumn(raw))
    [dropped] = Chain([link("DropHeaders", {"headers": "h"})]).apply_batch(one) or []
    assert isinstance(dropped.headers, HeaderColumn)
    assert dropped.headers.raw == [[("i", None)], [], []]
    named = Link("f", find("transform", "Filter")({}), find("predicate", "HasHeaderKey")({"name": "h"}))
    [left] = Chain([named]).apply_batch(one) or []
    assert list(left.rows) == [1]
    assert same(Chain([link("InsertHeader", {"header": "k", "value.literal": "1"})]), one)


class Doubled(Transform):
    """A transform of somebody's that knows only records."""

    def apply(self, record: Record) -> Record | None:
        return record.with_value(None, [record.value, record.value])


class Counting(InsertFieldValue):
    """Overrides what the batches of its base class do not know of."""

    def apply(self, record: Record) -> Record | None:
        changed = super().apply(record)
        return None if changed is None else changed.replace(topic="counted")


class Hiding(MaskFieldValue):
    """Overrides a method that those of its base class call, for records and for columns."""

    def changed_fields(self, record: Any, schema: Any, fields: dict[str, Any]) -> dict[str, Any]:
        return {name: "hidden" if name in self.fields else value for name, value in fields.items()}


class Odd(Predicate):
    """Matches by something that no column has."""

    def test(self, record: Any) -> bool:
        return len(repr(record)) % 2 == 1


class Shifted(Transform):
    """Breaks the rule that all columns have one length."""

    def apply(self, record: Record) -> Record | None:
        return record

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        return batch.replace(topics=["t"])


def test_transforms_without_column_methods_get_records() -> None:
    own = Link("d", Doubled({}))
    derived = Link("c", Counting({"static.field": "s", "static.value": "v"}))
    hiding = Link("h", Hiding({"fields": "a"}))
    predicate = Link("f", find("transform", "Filter")({}), Odd({}))
    for one in (own, derived, hiding, predicate):
        assert not Chain([one]).takes_batches
        assert Chain([one]).apply_batch(batch(ROWS)) is None
    assert Chain([link("RegexRouter", {"regex": "a", "replacement": "b"})]).takes_batches


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="longer or shorter"):
        Chain([Link("s", Shifted({}))]).apply_batch(batch(ROWS))
    with pytest.raises(ValueError, match="column a has 1"):
        StructColumn({"a": [1]}, 2)


@given(
    st.lists(st.integers(-(1 << 45), 1 << 45) | st.integers(0, 200_000), max_size=6),
    st.sampled_from((*_PATTERNS, "s", "yy", "S")),
)
def test_moments_are_formatted_alike_in_bulk_and_one_by_one(moments: list[int], pattern: str) -> None:
    own = SimpleDateFormat(pattern)
    assert own.format_all(moments) == [own.format(ms) for ms in moments]


_PARSED = (*_PATTERNS, "yyyy-MM-dd HH:mm:ss.SSS", "yyyyMMddHHmmss", "yy/M/d H:m:s'Z'", "ss.SSS", "MMM ss", "yyyy1ss")


@given(
    st.lists(st.integers(0, 1 << 41) | st.integers(-(1 << 46), 1 << 46), max_size=4),
    st.sampled_from(_PARSED),
    st.data(),
)
def test_texts_are_parsed_alike_in_bulk_and_one_by_one(moments: list[int], pattern: str, data: st.DataObject) -> None:
    own = SimpleDateFormat(pattern)
    texts = [own.format(ms) for ms in moments]
    for index, text in enumerate(texts):
        if data.draw(st.integers(0, 3)) == 0:
            at = data.draw(st.integers(0, len(text)))
            texts[index] = text[:at] + data.draw(st.sampled_from(("", " ", "-", "1", "x", "٣"))) + text[at + 1 :]
    assert _outcome(own.parse_all, texts) == _outcome(lambda each: [own.parse(text) for text in each], texts)


def _outcome(parse: Callable[[list[str]], list[int]], texts: list[str]) -> list[int] | str:
    try:
        return parse(texts)
    except ValueError as error:
        return str(error)


def test_texts_of_one_minute_are_parsed_once() -> None:
    own = SimpleDateFormat("yyyy-MM-dd HH:mm:ss.SSS")
    calls: list[str] = []
    own.parse = lambda text: calls.append(text) or SimpleDateFormat.parse(own, text)  # type: ignore[func-returns-value,method-assign]
    assert own.parse_all([f"2026-11-26 15:39:{n:02d}.123" for n in range(60)])[-1] == 1_795_707_599_123
    assert calls == ["2026-11-26 15:39:00.000"]


class Matched(Predicate):
    """Returns what a search returns, and for a batch as many results as it is given, as an author may by mistake."""

    results: Sequence[Any] = ()

    def test(self, record: Any) -> Any:
        return re.match("drop", record.topic)

    def matches(self, batch: RecordColumns) -> Sequence[Any] | None:
        return self.results


def test_result_of_a_predicate_counts_by_its_truth_value() -> None:
    topics = ["t", "drop-1", "t"]
    one, predicate = batch(ROWS[:3], topics=topics), Matched({})
    predicate.results = [re.match("drop", topic) for topic in topics]
    chain = Chain([Link("f", find("transform", "Filter")({}), predicate)])
    assert [row for row, _ in by_records(chain, one)] == [0, 2]
    assert same(chain, one)


def test_predicate_with_fewer_results_than_records_is_refused() -> None:
    predicate = Matched({})
    predicate.results = [False, True]
    mark = link("InsertField$Value", {"static.field": "s", "static.value": "v"}, predicate=predicate)
    with pytest.raises(ValueError, match="2 results for 3 records"):
        Chain([mark]).apply_batch(batch(ROWS[:3]))


class Picking(Transform):
    """Selects records as it is told."""

    indexes: Sequence[int] = ()

    def apply(self, record: Record) -> Record | None:
        return record

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        return batch.select(self.indexes)


@pytest.mark.parametrize("indexes", [(0, 0, 2), (2, 1, 0), (1, 0)])
def test_records_in_another_order_or_more_than_once_are_refused(indexes: Sequence[int]) -> None:
    own = Picking({})
    own.indexes = indexes
    with pytest.raises(ValueError, match="another order"):
        Chain([Link("p", own)]).apply_batch(batch(ROWS[:3]))


def test_fully_filtered_batch_skips_later_transforms() -> None:
    tombstones = batch(Repeated(None, 3))
    drop = Link("f", find("transform", "Filter")({}), find("predicate", "RecordIsTombstone")({}))
    assert same(Chain([drop, link("MaskField$Value", {"fields": "a"})]), tombstones)
