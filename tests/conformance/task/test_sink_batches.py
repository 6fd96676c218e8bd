"""How a sink's task reads, on the real broker: by whole batches or by records, and what it says where it cannot."""

import logging
from pathlib import Path

import pytest

from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.read import fetched_queue, group_batches
from fencepost.kafka.read.group_batches import BatchGroupInput
from fencepost.kafka.read.group_input import GroupInput
from fencepost.record import TopicPartition
from fencepost.task.channel.message import RunState
from fencepost.testing import eventually
from support.group_members import damaged
from support.log_writer import LogWriter
from support.sink_stage import StartedSink


@pytest.mark.parametrize(
    ("settings", "kind", "said"),
    [
        ({}, BatchGroupInput, ""),
        ({"group.instance.id": "one", "partition.assignment.strategy": "RoundRobinAssignor"}, BatchGroupInput, ""),
        ({"client.rack": "here"}, GroupInput, "because of client.rack"),
        ({"statistics.interval.ms": "1000"}, GroupInput, "because of statistics.interval.ms"),
    ],
    ids=["as it comes", "settings of groups", "client.rack", "statistics"],
)
def test_sink_reads_batches_unless_a_setting_needs_librdkafka(
    log_writer: LogWriter,
    topic_name: str,
    tmp_path: Path,
    settings: dict[str, str],
    kind: type[GroupInput],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    log_writer.send(log_writer.topic(topic_name), ["a", "b"])
    out = tmp_path / "out"
    with (
        caplog.at_level(logging.INFO),
        StartedSink(log_writer.bootstrap, topic_name, out, consumer=settings) as started,
    ):
        eventually(lambda: out.exists() and out.read_text() == "a\nb\n")
        assert type(started.runner.input) is kind
    assert said in caplog.text
    assert ("record by record" in caplog.text) is bool(said)


def test_corrupt_batch_fails_the_task_with_its_topic_partition_and_offset(
    log_writer: LogWriter, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_writer.send(log_writer.topic(topic_name), ["a", "b"])
    monkeypatch.setattr(fetched_queue, "Answered", damaged)
    with StartedSink(log_writer.bootstrap, topic_name, tmp_path / "out") as started:
        report = eventually(lambda: next((r for r in started.reports if r.state is RunState.FAILED), None))
    assert report.trace is not None
    assert f"CorruptBatchError: {topic_name}-0: The batch at offset 0" in report.trace


@pytest.mark.parametrize("settings", [{}, {"statistics.interval.ms": "60000"}], ids=["batches", "records"])
def test_end_to_which_a_recreated_topic_is_reset_is_committed(
    log_writer: LogWriter, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    """With `latest`: the records that are written to it while the sink is stopped would be skipped."""
    monkeypatch.setattr(group_batches, "SURE_S", 0.5)
    log_writer.send(log_writer.topic(topic_name), ["before it"])
    out, group = tmp_path / "out", f"connect-{topic_name}"
    place = TopicPartition(topic_name, 0)
    latest = {"auto.offset.reset": "latest", **settings}

    def committed() -> int | None:
        found = read_stable({"bootstrap.servers": log_writer.bootstrap}, group, 30)
        return found[place].offset if place in found else None

    with StartedSink(log_writer.bootstrap, topic_name, out, consumer=latest):
        eventually(lambda: committed() == 1)
        log_writer.send(topic_name, ["a", "b"])
        eventually(lambda: out.exists() and out.read_text() == "a\nb\n")
        log_writer.recreate(topic_name)
        eventually(lambda: committed() == 0)
    log_writer.send(topic_name, ["c"])
    with StartedSink(log_writer.bootstrap, topic_name, out, consumer=latest):
        eventually(lambda: out.read_text() == "a\nb\nc\n")
