"""Groups outside of the cluster's sinks, of every kind: while one of them reads a topic, nothing of it goes."""

import pytest
from confluent_kafka import TopicPartition
from retention_stage import Stage

from fencepost.testing import eventually
from support.java_program import share_member, streams_member


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_but_without_commits_holds_deletion(stage: Stage, protocol: str) -> None:
    topic, group = stage.topic(9), f"outside-{protocol}"
    sink = stage.sink(topic, 3)
    stage.await_starts(topic, 3)
    with stage.member(group, topic, group_protocol=protocol):
        stage.refused(topic, f"group {group}")
        stage.commit(sink, topic, 9)
        stage.refused(topic, f"group {group}")
    stage.await_starts(topic, 9)


def test_a_group_with_a_pattern_holds_deletion_of_matching_topics(stage: Stage) -> None:
    topic, other, group = stage.topic(9), stage.topic(9), "outside-pattern"
    stage.sink(topic, 3)
    stage.sink(other, 3)
    with stage.subscriber(group, f"^{topic}$", group_protocol="consumer") as consumer:
        eventually(lambda: consumer.poll(0.02) or group in str(stage.told(topic)["refused"]))
        stage.refused(topic, f"group {group}")
        stage.await_starts(other, 3)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_offsets_only_holds_deletion_until_it_is_deleted(stage: Stage, protocol: str) -> None:
    topic, group = stage.topic(9), f"outside-left-{protocol}"
    with stage.member(group, topic, group_protocol=protocol) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)
    stage.sink(topic, 9)
    stage.refused(topic, f"group {group}")
    stage.forget(group)
    stage.await_starts(topic, 9)


def test_a_group_that_never_had_members_holds_deletion_by_its_offsets(stage: Stage) -> None:
    topic, group = stage.topic(9), "outside-simple"
    stage.set_offsets(group, topic, 9)
    stage.sink(topic, 9)
    stage.refused(topic, f"group {group}")
    stage.forget(group)
    stage.await_starts(topic, 9)


def test_a_share_group_holds_deletion_with_and_without_members(stage: Stage) -> None:
    topic, group = stage.topic(9), "outside-share"
    sink = stage.sink(topic, 3)
    stage.await_starts(topic, 3)
    with share_member(stage.writer.bootstrap, group, topic):
        stage.refused(topic, f"group {group}")
        stage.commit(sink, topic, 9)
        stage.refused(topic, f"group {group}")
    stage.refused(topic, f"group {group}")
    stage.forget(group)
    stage.await_starts(topic, 9)


def test_a_streams_group_holds_deletion_of_its_topics_with_and_without_members(stage: Stage) -> None:
    topic, other, group = stage.topic(9), stage.topic(9), f"{stage.prefix}-streams"
    sink = stage.sink(topic, 3)
    stage.await_starts(topic, 3)
    with streams_member(stage.writer.bootstrap, group, topic):
        stage.refused(topic, f"group {group}")
        stage.sink(other, 9)
        stage.await_starts(other, 9)
        stage.commit(sink, topic, 9)
        stage.refused(topic, f"group {group}")
    stage.refused(topic, f"group {group}")
    stage.forget(group)
    stage.await_starts(topic, 9)


def test_groups_that_read_other_topics_do_not_hold_deletion(stage: Stage) -> None:
    topic, elsewhere = stage.topic(9), stage.topic(9)
    stage.set_offsets("outside-elsewhere", elsewhere, 9)
    stage.sink(topic, 9)
    with stage.member("outside-elsewhere-too", elsewhere):
        stage.await_starts(topic, 9)


def test_deletion_waits_for_a_respected_group(stage: Stage) -> None:
    topic, group = stage.topic(9), "waited-for"
    with stage.member(group, topic) as consumer:
        stage.sink(topic, 9)
        stage.rounds()
        assert stage.starts(topic) == [0]
        assert stage.held(topic) == f"group {group} has committed nothing there yet"
        consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        stage.await_starts(topic, 4)
    stage.await_starts(topic, 4)
    stage.set_offsets(group, topic, 7)
    stage.await_starts(topic, 7)
    assert stage.held(topic) == f"group {group}, which has committed 7"
