"""The record of what is given up: as it is written, so it is read; what is no such record changes nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.storage import records
from fencepost.storage.change import TopicRetention
from fencepost.storage.fold import apply
from fencepost.storage.snapshot import ClusterSnapshot, SnapshotBuilder

KNOWN = TopicRetention("id", {0: 5, 3: 2**53}, {"g": {1: 0}})


def folded(*encoded: records.Encoded) -> ClusterSnapshot:
    builder = SnapshotBuilder()
    for offset, (key, value) in enumerate(encoded):
        apply(builder, offset, key, value)
    return builder.freeze()


OFFSETS = st.dictionaries(st.integers(0, 999), st.integers(0, 2**62), max_size=5)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
KNOWN_ONES = st.builds(TopicRetention, TEXTS, OFFSETS, st.dictionaries(TEXTS, OFFSETS, max_size=3))


@given(topic=TEXTS, known=KNOWN_ONES)
def test_retention_record_survives_the_round_trip(topic: str, known: TopicRetention) -> None:
    assert folded(records.topic_retention(topic, known)).retention == {topic: known}


def test_the_newest_record_counts() -> None:
    newer = TopicRetention("id", {0: 6})
    assert folded(records.topic_retention("t", KNOWN), records.topic_retention("t", newer)).retention == {"t": newer}


def test_tombstone_removes_the_retention_of_a_topic() -> None:
    assert folded(records.topic_retention("t", KNOWN), records.topic_retention_removed("t")).retention == {}


@pytest.mark.parametrize(
    "value",
    [
        [],
        "text",
        {},
        {"id": "x"},
        {"deleted": []},
        {"id": 1, "deleted": []},
        {"id": "x", "deleted": {}},
        {"id": "x", "deleted": [1]},
        {"id": "x", "deleted": [[1]]},
        {"id": "x", "deleted": [[1, 2, 3]]},
        {"id": "x", "deleted": [[1, "2"]]},
        {"id": "x", "deleted": [[1, None]]},
        {"id": "x", "deleted": [[True, 2]]},
        {"id": "x", "deleted": [[1, 2.5]]},
        {"id": "x", "deleted": [], "inherited": []},
        {"id": "x", "deleted": [], "inherited": {"g": 5}},
        {"id": "x", "deleted": [], "inherited": {"g": [[0]]}},
    ],
)
def test_malformed_retention_record_is_ignored(value: Any) -> None:
    key, _ = records.topic_retention("t", KNOWN)
    found = folded(records.topic_retention("t", KNOWN), (key, json.dumps(value).encode()))
    assert found.retention == {"t": KNOWN}


def test_retention_record_that_is_not_json_is_ignored() -> None:
    key, _ = records.topic_retention("t", KNOWN)
    assert folded(records.topic_retention("t", KNOWN), (key, b"\xff{")).retention == {"t": KNOWN}


def test_published_snapshots_do_not_change() -> None:
    first = folded(records.topic_retention("t", KNOWN))
    builder = SnapshotBuilder(first)
    builder.put_retention("t", None)
    assert (builder.freeze().retention, first.retention) == ({}, {"t": KNOWN})
