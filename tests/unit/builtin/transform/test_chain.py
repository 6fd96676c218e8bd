"""Chain: transforms in order, with predicates, from a connector's config."""

from typing import Any

import pytest

from fencepost.api import ConfigError, SourceRecord
from fencepost.builtin.transform.chain import Chain
from fencepost.plugin import find
from fencepost.record import Batch, RecordColumns, Repeated

ROUTE = {
    "transforms": "route",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": "(.*)",
    "transforms.route.replacement": "x-$1",
}
TOMBSTONES = {"predicates": "gone", "predicates.gone.type": "RecordIsTombstone"}


def chain(**properties: str) -> Chain:
    return Chain.from_config(properties, find)


def record(value: Any = None, topic: str = "t") -> SourceRecord:
    return SourceRecord({}, {}, topic, value)


def columns(topic: str, count: int) -> RecordColumns:
    return RecordColumns.of_batch(
        Batch(Repeated(topic, count), Repeated(1, count), Repeated({}, count), [None] * count)
    )


def test_no_transforms_change_nothing() -> None:
    one = record(1)
    batch = columns("t", 3)
    assert chain(name="c").apply(one) is one
    assert chain().apply_batch(batch) == [batch]


def test_transforms_apply_in_order() -> None:
    made = chain(
        **ROUTE
        | {
            "transforms": "route, mark",
            "transforms.mark.type": "InsertField$Value",
            "transforms.mark.topic.field": "topic",
        }
    )
    changed = made.apply(record({"a": 1}))
    assert changed is not None
    assert changed.value == {"a": 1, "topic": "x-t"}
    assert [link.alias for link in made.links] == ["route", "mark"]


def test_transforms_of_topics_work_on_columns() -> None:
    twice = chain(
        **ROUTE
        | {
            "transforms": "route,more",
            "transforms.more.type": "RegexRouter",
            "transforms.more.regex": "x-(.*)",
            "transforms.more.replacement": "y-$1",
        }
    )
    batch = columns("t", 2)
    [routed] = twice.apply_batch(batch) or []
    assert isinstance(routed.topics, Repeated)
    assert list(routed.topics) == ["y-t", "y-t"]
    assert routed.value is batch.value


@pytest.mark.parametrize(("negate", "kept"), [(None, "value"), ("false", "value"), ("TRUE", "tombstone")])
def test_predicates_select_records_and_can_be_negated(negate: str | None, kept: str) -> None:
    properties = {"transforms": "drop", "transforms.drop.type": "Filter", "transforms.drop.predicate": "gone"}
    if negate is not None:
        properties["transforms.drop.negate"] = negate
    made = chain(**properties | TOMBSTONES)
    assert (made.apply(record(1)) is not None) == (kept == "value")
    assert (made.apply(record(None)) is not None) == (kept == "tombstone")


def test_every_fault_of_a_chain_is_named_with_its_full_key() -> None:
    with pytest.raises(ConfigError) as caught:
        chain(
            transforms="a,b,c,d,e",
            predicates="p",
            **{
                "transforms.a.type": "RegexRouter",
                "transforms.a.regex": "(",
                "transforms.b.type": "Nothing",
                "transforms.d.type": "Filter",
                "transforms.d.predicate": "unknown",
                "transforms.e.type": "Filter",
                "transforms.e.predicate": "p",
                "predicates.p.type": "TopicNameMatches",
                "transforms.c.negate": "true",
            },
        )
    text = "\n".join(caught.value.messages)
    for expected in (
        "Invalid value ( for configuration transforms.a.regex: Invalid regex",
        'Missing required configuration "transforms.a.replacement"',
        "Invalid value Nothing for configuration transforms.b.type: Class Nothing could not be found",
        'Missing required configuration "transforms.c.type"',
        "Config 'transforms.c.negate' was provided but there is no config 'transforms.c.predicate'",
        "Invalid value unknown for configuration transforms.d.predicate: there is no such alias in 'predicates'",
        'Missing required configuration "predicates.p.pattern"',
    ):
        assert expected in text
    assert len(caught.value.messages) == 7


def test_faults_across_settings_name_the_transform() -> None:
    with pytest.raises(ConfigError, match=r"transforms\.m: No field insertion configured"):
        chain(transforms="m", **{"transforms.m.type": "InsertField$Key"})


def test_duplicate_alias_of_a_transform_is_refused() -> None:
    with pytest.raises(ConfigError, match="transforms"):
        chain(**ROUTE | {"transforms": "route,route"})
