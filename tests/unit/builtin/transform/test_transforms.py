"""The transforms and predicates, with and without schemas."""

import datetime as dt
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import ConfigError, Header, RecordError, Schema, SourceRecord, Transform
from fencepost.builtin.transform.insert_field import InsertFieldKey, InsertFieldValue
from fencepost.builtin.transform.java_regex import compiled, replacer
from fencepost.builtin.transform.predicate import Filter, HasHeaderKey, RecordIsTombstone, TopicNameMatches
from fencepost.builtin.transform.replace_field import ReplaceFieldKey, ReplaceFieldValue
from fencepost.builtin.transform.router import RegexRouter
from fencepost.record import Repeated
from fencepost.record.schema import INT32, INT64, STRING

ORDER = Schema.struct({"id": INT64, "name": STRING, "count": replace(INT32, default=1)}, name="Order")


def record(value: Any = None, schema: Schema | None = None, **more: Any) -> SourceRecord:
    return SourceRecord({"p": 1}, {"o": 1}, more.pop("topic", "orders"), value, schema, **more)


def applied(transform: Transform, given_record: SourceRecord) -> SourceRecord:
    changed = transform.apply(given_record)
    assert changed is not None
    return changed


def test_insert_field_without_a_schema() -> None:
    transform = InsertFieldValue(
        {
            "topic.field": "t",
            "partition.field": "p!",
            "timestamp.field": "at?",
            "static.field": "s",
            "static.value": "fixed",
        }
    )
    changed = applied(transform, record({"id": 1}, kafka_partition=3, timestamp=1000))
    assert changed.value == {"id": 1, "t": "orders", "p": 3, "at": 1000, "s": "fixed"}
    assert applied(transform, record({"id": 1})).value == {"id": 1, "t": "orders", "s": "fixed"}


def test_insert_field_with_a_schema() -> None:
    transform = InsertFieldValue({"topic.field": "t!", "timestamp.field": "at"})
    changed = applied(transform, record({"id": 1, "name": "x"}, ORDER, timestamp=1500))
    moment = dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=dt.UTC)
    assert changed.value == {"id": 1, "name": "x", "count": 1, "t": "orders", "at": moment}
    assert changed.value_schema is not None
    assert [(f.name, f.schema.is_optional) for f in changed.value_schema.fields] == [
        ("id", False),
        ("name", False),
        ("count", False),
        ("t", False),
        ("at", True),
    ]
    assert changed.value_schema.name == "Order"
    again = applied(transform, record({"id": 2, "name": "y"}, ORDER))
    assert again.value_schema is changed.value_schema


def test_insert_field_into_the_key() -> None:
    transform = InsertFieldKey({"static.field": "s", "static.value": "v"})
    changed = applied(transform, record("value", key={"k": 1}))
    assert (changed.key, changed.value) == ({"k": 1, "s": "v"}, "value")


def test_a_record_without_a_value_passes_untouched() -> None:
    tombstone = record(None)
    assert InsertFieldValue({"topic.field": "t"}).apply(tombstone) is tombstone
    assert ReplaceFieldValue({"exclude": "x"}).apply(tombstone) is tombstone


@pytest.mark.parametrize(("value", "schema"), [("text", None), ("text", STRING), ([1], None)])
def test_insert_field_refuses_values_without_fields(value: Any, schema: Schema | None) -> None:
    with pytest.raises(RecordError, match=r"Only (Map|Struct) objects supported"):
        InsertFieldValue({"topic.field": "t"}).apply(record(value, schema))


def test_insert_field_of_offsets_is_refused_for_sources() -> None:
    with pytest.raises(RecordError, match="sink"):
        InsertFieldValue({"offset.field": "o"}).apply(record({}))


@pytest.mark.parametrize("properties", [{}, {"static.field": "s"}])
def test_insert_field_needs_something_to_insert(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"No (field insertion|value specified)"):
        InsertFieldValue(properties)


def test_replace_field_without_a_schema() -> None:
    transform = ReplaceFieldValue({"include": "a,b,c", "exclude": "b", "renames": "a:x,c:y"})
    assert applied(transform, record({"a": 1, "b": 2, "c": 3, "d": 4})).value == {"x": 1, "y": 3}


def test_replace_field_with_a_schema() -> None:
    transform = ReplaceFieldValue({"exclude": "id", "renames": "name:title"})
    changed = applied(transform, record({"id": 1, "name": "x"}, ORDER))
    assert changed.value == {"title": "x", "count": 1}
    assert changed.value_schema is not None
    assert [f.name for f in changed.value_schema.fields] == ["title", "count"]


def test_replace_field_of_the_key_leaves_the_value_alone() -> None:
    changed = applied(ReplaceFieldKey({"exclude": "a"}), record({"a": 1}, key={"a": 1, "b": 2}))
    assert (changed.key, changed.value) == ({"b": 2}, {"a": 1})


def test_old_names_of_settings_work_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    transform = ReplaceFieldValue({"blacklist": "a", "whitelist": "a,b"})
    assert applied(transform, record({"a": 1, "b": 2, "c": 3})).value == {"b": 2}
    assert "blacklist of ReplaceField is deprecated: use exclude" in caplog.text


def test_invalid_rename_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="configuration renames: Invalid rename mapping: a"):
        ReplaceFieldValue({"renames": "a"})


def test_replace_field_accepts_an_unhashable_default() -> None:
    schema = Schema.struct({"l": replace(STRING, default=["x"])})
    assert applied(ReplaceFieldValue({"exclude": "z"}), record({}, schema)).value == {"l": ["x"]}


@pytest.mark.parametrize(
    ("regex", "replacement", "topic", "expected"),
    [
        ("(.*)-raw", "clean-$1", "a-raw", "clean-a"),
        ("raw", "x", "a-raw", "a-raw"),  # the whole name has to match
        ("(?<base>.*)-(\\d+)", "${base}.$2", "a-12", "a.12"),
        ("a|ab", "x", "ab", "xb"),  # and then the first match is replaced
        ("(a)(b)?c", "$1$2-$12", "ac", "a-a2"),
        ("(.*)", "\\$1-$1", "t", "$1-t"),
        ("\\Qa.b\\E(.*)", "z$1", "a.bc", "zc"),
        ("\\p{Alpha}+[\\p{Digit}_]*", "x", "ab_1", "x"),
        (".*", "one", "t", "one"),
    ],
)
def test_topics_are_routed_as_java_does(regex: str, replacement: str, topic: str, expected: str) -> None:
    router = RegexRouter({"regex": regex, "replacement": replacement})
    assert applied(router, record(topic=topic)).topic == expected
    routed = router.apply_topics(Repeated(topic, 3))
    assert isinstance(routed, Repeated)
    assert list(routed) == [expected] * 3
    assert router.apply_topics([topic, "-"]) == [expected, applied(router, record(topic="-")).topic]


@pytest.mark.parametrize(
    ("regex", "replacement"), [("(a", "x"), ("a", "$1"), ("a", "${n}"), ("a", "$"), ("\\p{Nope}", "")]
)
def test_wrong_patterns_and_replacements_are_named(regex: str, replacement: str) -> None:
    with pytest.raises(ConfigError, match=r"for configuration (regex|replacement): "):
        RegexRouter({"regex": regex, "replacement": replacement})


@given(st.text(alphabet="ab$\\{}", max_size=8), st.text(alphabet="ab", max_size=5))
def test_quoted_replacement_is_literal(text: str, topic: str) -> None:
    quoted = re.sub(r"([\\$])", r"\\\1", text)
    pattern = compiled(".*")
    assert pattern.sub(replacer(pattern, quoted), topic, count=1) == text


def test_filter_drops_every_record() -> None:
    assert Filter().apply(record({"a": 1})) is None


def test_predicates_test_headers_tombstones_and_topic_names() -> None:
    with_header = record(1, headers=(Header("h", 1),))
    assert HasHeaderKey({"name": "h"}).test(with_header)
    assert not HasHeaderKey({"name": "other"}).test(with_header)
    assert RecordIsTombstone().test(record(None))
    assert not RecordIsTombstone().test(record(0))
    matches = TopicNameMatches({"pattern": "a.*"})
    assert matches.test(record(topic="abc"))
    assert not matches.test(record(topic="xabc"))
    assert not TopicNameMatches({"pattern": "a"}).test(record(topic="ab"))
