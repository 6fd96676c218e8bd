"""The plan of a mirror: which topics, their remote names, and which task copies which partitions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.builtin.mirror.setting.filters import NameFilter
from fencepost.builtin.mirror.setting.mirror_settings import DefaultReplicationPolicy, policy_of
from fencepost.builtin.mirror.source.remote_topics import (
    Selection,
    as_text,
    divided,
    from_text,
    partitions_to_copy,
    shared_names,
    shortage,
)
from fencepost.record import TopicPartition

TOPICS = st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,20}", fullmatch=True)
PLACES = st.lists(st.builds(TopicPartition, TOPICS, st.integers(0, 999)), unique=True)


def selection(
    topics: str = ".*", exclude: str = "", *, policy: str = "DefaultReplicationPolicy", heartbeats: bool = True
) -> Selection:
    takes = NameFilter([topics], [exclude] if exclude else []).takes
    made = policy_of("k", policy, {"source.cluster.alias": "A"})
    return Selection(made, "A", "B", takes, with_heartbeats=heartbeats)


def test_topics_of_the_filter_are_chosen_in_order() -> None:
    assert selection("[ab].*", "b2").chosen(["c", "b2", "b1", "a"]) == ["a", "b1"]


def test_internal_topics_of_kafka_and_mirroring_are_never_mirrored() -> None:
    internal = ["__consumer_offsets", ".hidden", "mm2-offset-syncs.B.internal", "A.checkpoints.internal"]
    assert selection().chosen([*internal, "orders"]) == ["orders"]


@pytest.mark.parametrize("policy", ["DefaultReplicationPolicy", "IdentityReplicationPolicy"])
def test_heartbeats_are_mirrored_for_any_filter_unless_switched_off(policy: str) -> None:
    there = ["heartbeats", "C.heartbeats", "B.heartbeats", "orders"]
    assert selection("nothing", policy=policy).chosen(there) == ["C.heartbeats", "heartbeats"]
    assert selection("orders", policy=policy, heartbeats=False).chosen(there) == ["orders"]


def test_topics_from_the_target_are_not_mirrored_back_through_other_clusters() -> None:
    there = ["orders", "B.orders", "C.orders", "C.B.orders", "D.C.B.orders", "B.C.orders"]
    assert selection().chosen(there) == ["C.orders", "orders"]


def test_identity_policy_mirrors_topics_of_any_origin() -> None:
    assert selection(policy="IdentityReplicationPolicy").chosen(["B.orders", "orders"]) == ["B.orders", "orders"]


class Lowering(DefaultReplicationPolicy):
    """Tells topics apart by more than their case."""

    def format_remote_topic(self, source_cluster_alias: str, topic: str) -> str:
        return topic.lower()


def test_topics_with_the_same_remote_name_are_found() -> None:
    topics = ["b", "A", "Other", "a", "B"]
    assert shared_names(topics, replace(selection(), policy=Lowering())) == {"a": ["A", "a"], "b": ["B", "b"]}
    assert shared_names(topics, selection()) == {}


def test_missing_topics_and_partitions_of_the_target_are_found() -> None:
    lacking = shortage({"new": 3, "small": 4, "same": 2, "larger": 1}, {"A.small": 1, "A.same": 2, "A.larger": 5},
                       selection())  # fmt: skip
    assert (lacking.missing, lacking.too_small) == ({"new": 3}, {"small": 4})


def test_only_partitions_present_at_the_target_are_copied() -> None:
    found = partitions_to_copy({"b": 3, "a": 2, "gone": 1}, {"A.a": 5, "A.b": 2}, selection())
    assert found == [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("b", 1)]


@given(PLACES, st.integers(1, 20))
def test_partitions_are_assigned_once_and_evenly(places: list[TopicPartition], most: int) -> None:
    tasks = divided(places, most)
    assert sorted(place for task in tasks for place in task) == sorted(places)
    assert len(tasks) == min(most, len(places))
    assert not tasks or max(map(len, tasks)) - min(map(len, tasks)) <= 1


@given(PLACES)
def test_plan_survives_encoding_as_a_property(places: list[TopicPartition]) -> None:
    text = as_text(places)
    assert from_text(text.split(",") if text else []) == places
