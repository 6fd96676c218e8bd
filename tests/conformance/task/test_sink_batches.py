"""How a sink's task reads, on the real broker: by whole batches or by records, and what it says where it cannot."""

import logging
from pathlib import Path

import pytest

from fencepost.kafka.read import fetched_queue
from fencepost.kafka.read.group_batches import BatchGroupInput
from fencepost.kafka.read.group_input import GroupInput
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
