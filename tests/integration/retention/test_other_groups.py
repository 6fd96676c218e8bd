"""Groups outside of the cluster's sinks, of every kind: while one of them reads a topic, nothing of it goes."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from retention_stage import Stage

from fencepost.embedded.home import ensure_home
from fencepost.embedded.java import find_java
from fencepost.testing import eventually

PROGRAM = Path(__file__).with_name("ShareReader.java")


def can_compile() -> bool:
    listed = subprocess.run([str(find_java().path), "--list-modules"], capture_output=True, text=True, check=True)
    return "jdk.compiler" in listed.stdout


@contextmanager
def share_member(stage: Stage, group: str, topic: str) -> Iterator[None]:
    """Read in a share group."""
    java = find_java()
    command = [
        str(java.path), "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", ensure_home(java).classpath,
        str(PROGRAM), stage.writer.bootstrap, group, topic,
    ]  # fmt: skip
    reader = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert reader.stdout is not None
    assert reader.stdin is not None
    try:
        assert reader.stdout.readline() == "read\n"
        yield
        reader.stdin.write("leave\n")
        reader.stdin.flush()
        assert "left\n" in list(reader.stdout)
    finally:
        reader.kill()
        reader.wait()
        reader.stdin.close()
        reader.stdout.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_whose_members_have_committed_nothing_reads(stage: Stage, protocol: str) -> None:
    topic, group = stage.topic(9), f"outside-{protocol}"
    sink = stage.sink(topic, 3)
    stage.await_starts(topic, 3)
    with stage.member(group, topic, group_protocol=protocol):
        stage.refused(topic, f"group {group}")
        stage.commit(sink, topic, 9)
        stage.refused(topic, f"group {group}")
    stage.await_starts(topic, 9)


def test_a_group_that_subscribes_to_a_pattern_reads_what_it_takes(stage: Stage) -> None:
    topic, other, group = stage.topic(9), stage.topic(9), "outside-pattern"
    stage.sink(topic, 3)
    stage.sink(other, 3)
    with stage.subscriber(group, f"^{topic}$", group_protocol="consumer") as consumer:
        eventually(lambda: consumer.poll(0.02) or group in str(stage.told(topic)["refused"]))
        stage.refused(topic, f"group {group}")
        stage.await_starts(other, 3)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_only_has_offsets_reads_until_it_is_deleted(stage: Stage, protocol: str) -> None:
    topic, group = stage.topic(9), f"outside-left-{protocol}"
    with stage.member(group, topic, group_protocol=protocol) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=False)
    stage.sink(topic, 9)
    stage.refused(topic, f"group {group}")
    stage.forget(group)
    stage.await_starts(topic, 9)


def test_a_group_that_never_had_members_reads_by_its_offsets(stage: Stage) -> None:
    topic, group = stage.topic(9), "outside-simple"
    stage.set_offsets(group, topic, 9)
    stage.sink(topic, 9)
    stage.refused(topic, f"group {group}")
    stage.forget(group)
    stage.await_starts(topic, 9)


def test_a_share_group_reads_with_members_and_without(stage: Stage) -> None:
    if not can_compile():
        pytest.skip("librdkafka knows no share groups, and this Java cannot compile one: it takes a JDK")
    topic, group = stage.topic(9), "outside-share"
    sink = stage.sink(topic, 3)
    stage.await_starts(topic, 3)
    with share_member(stage, group, topic):
        stage.refused(topic, f"group {group}")
        stage.commit(sink, topic, 9)
        stage.refused(topic, f"group {group}")
    stage.refused(topic, f"group {group}")
    stage.forget(group)
    stage.await_starts(topic, 9)


def test_groups_that_read_other_topics_are_no_reason(stage: Stage) -> None:
    topic, elsewhere = stage.topic(9), stage.topic(9)
    stage.set_offsets("outside-elsewhere", elsewhere, 9)
    stage.sink(topic, 9)
    with stage.member("outside-elsewhere-too", elsewhere):
        stage.await_starts(topic, 9)


def test_a_group_that_is_respected_is_waited_for(stage: Stage) -> None:
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
