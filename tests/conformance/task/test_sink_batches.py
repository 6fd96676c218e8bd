"""How a sink's task reads, on the real broker: by whole batches or by records, and what it says where it cannot."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.builtin.connector.file_stream.sink import FileStreamSinkTask
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


LATEST = {"auto.offset.reset": "latest"}
BY_RECORDS = {**LATEST, "statistics.interval.ms": "60000"}


def committed(log_writer: LogWriter, topic: str) -> int | None:
    """Return the offset of the sink's group in the only partition of its topic."""
    found = read_stable({"bootstrap.servers": log_writer.bootstrap}, f"connect-{topic}", 30)
    return found[place].offset if (place := TopicPartition(topic, 0)) in found else None


@contextmanager
def paused(started: StartedSink) -> Iterator[None]:
    started.runner.control.pause()
    eventually(lambda: started.reports[-1].state is RunState.PAUSED)
    yield
    started.runner.control.resume()


@pytest.mark.parametrize("consumer", [LATEST, BY_RECORDS], ids=["batches", "records"])
def test_end_to_which_a_recreated_topic_is_reset_is_committed(
    log_writer: LogWriter, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, consumer: dict[str, str]
) -> None:
    """With `latest`: the records that are written to it while the sink is stopped would be skipped."""
    monkeypatch.setattr(group_batches, "SURE_S", 0.5)
    log_writer.send(log_writer.topic(topic_name), ["before it"])
    out = tmp_path / "out"
    with StartedSink(log_writer.bootstrap, topic_name, out, consumer=consumer):
        eventually(lambda: committed(log_writer, topic_name) == 1)
        log_writer.send(topic_name, ["a", "b"])
        eventually(lambda: out.exists() and out.read_text() == "a\nb\n")
        log_writer.recreate(topic_name)
        eventually(lambda: committed(log_writer, topic_name) == 0, within_s=90)
    log_writer.send(topic_name, ["c"])
    with StartedSink(log_writer.bootstrap, topic_name, out, consumer=consumer):
        eventually(lambda: out.read_text() == "a\nb\nc\n")


def test_end_to_which_reading_is_reset_after_retention_is_committed(
    log_writer: LogWriter, topic_name: str, tmp_path: Path
) -> None:
    """It has passed the position of a sink that was paused."""
    log_writer.send(log_writer.topic(topic_name), ["before it"])
    with StartedSink(log_writer.bootstrap, topic_name, tmp_path / "out", consumer=LATEST) as started:
        eventually(lambda: committed(log_writer, topic_name) == 1)
        with paused(started):
            log_writer.send(topic_name, ["x"] * 10)
            log_writer.truncate(topic_name, 5)
        eventually(lambda: committed(log_writer, topic_name) == 11)


def test_end_to_which_a_log_is_reset_twice_is_committed(
    log_writer: LogWriter, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sink has read nothing between the two."""
    monkeypatch.setattr(group_batches, "SURE_S", 0.5)
    log_writer.send(log_writer.topic(topic_name), ["before it"])
    with StartedSink(log_writer.bootstrap, topic_name, tmp_path / "out", consumer=LATEST) as started:
        eventually(lambda: committed(log_writer, topic_name) == 1)
        log_writer.recreate(topic_name)
        eventually(lambda: committed(log_writer, topic_name) == 0)
        with paused(started):
            log_writer.send(topic_name, ["x"] * 10)
            log_writer.truncate(topic_name, 5)
        eventually(lambda: committed(log_writer, topic_name) == 10)


def test_offsets_of_a_sink_that_buffers_are_not_committed_below_a_reset(
    log_writer: LogWriter, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers what was durable before: the next start would be reset to a later end."""
    log_writer.send(log_writer.topic(topic_name), ["before it"])
    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(FileStreamSinkTask, "pre_commit", lambda _, offsets: {p: min(o, 1) for p, o in offsets.items()})
        with StartedSink(log_writer.bootstrap, topic_name, out, consumer=LATEST) as started:
            eventually(lambda: committed(log_writer, topic_name) == 1)
            with paused(started):
                log_writer.send(topic_name, ["x"] * 10)
                log_writer.truncate(topic_name, 8)
            eventually(lambda: committed(log_writer, topic_name) == 11)
            log_writer.send(topic_name, ["a", "b"])
            eventually(lambda: out.exists() and out.read_text() == "a\nb\n")
    assert committed(log_writer, topic_name) == 11
