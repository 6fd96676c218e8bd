"""The task of a DataFrame stream on the real broker, with a Spark that is made up."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from epoch_stage import Runtime, Stage

from fencepost.api import Epoch
from fencepost.builtin.connector.topic import TopicSql
from fencepost.config.worker import WorkerConfig
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import transactional_conf
from fencepost.kafka.value.position import GroupOffset, LogRange
from fencepost.record import TopicPartition
from fencepost.spark.epoch.output import range_id, write_range
from fencepost.spark.epoch.records import EpochRecords
from fencepost.task.channel.split_message import EpochReading
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.task.sink.epoch_plan import EpochOffset
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.transaction import CommitUnknownError, TransactionalWriter, WriterFencedError
from fencepost.worker.host.epoch.sink_and_stream import EpochStreamTask
from fencepost.worker.host.frame import task as frame_task
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.fence import TaskFence
from support.settings import SETTINGS
from support.traced import Traced, id_of, parent_of


class StreamStage(Stage):
    """Starts of the task of a stream into a topic beside the one of the stage."""

    def __init__(self, bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(bootstrap, topic, monkeypatch)
        self.target = f"{topic}-out"
        self.readings: list[EpochReading] = []
        Admin({"bootstrap.servers": bootstrap}).topics.create(self.target, partitions=1, replication=1)
        monkeypatch.setattr(EpochRecords, "write", lambda records, session, epoch, *_: self.write(epoch))

    def connector_of(self, name: str) -> type[Any]:
        return TopicSql

    def made(self, spec: TaskSpec) -> EpochStreamTask:
        id_ = f"g-{self.topic}-0"
        conf = transactional_conf({"bootstrap.servers": self.bootstrap}, id_).conf
        producer = {k: v for k, v in conf.items() if k != "transactional.id"}
        config = {**spec.connector_config, "output.topic": self.target}
        found = replace(
            spec,
            connector_config=config,
            task_config=config,
            output=replace(spec.output, producer_conf=producer, transactional_id=id_),
            input=replace(spec.input, reader_conf={"bootstrap.servers": self.bootstrap}),
        )
        return EpochStreamTask(cast(Any, self), found, Runtime())

    def add(self, entry: object) -> str:
        self.readings.append(cast(EpochReading, entry))
        return ""

    def write(self, epoch: Epoch) -> None:
        """Write the ranges of an epoch, as Spark's tasks do."""
        self.store.at("write", epoch)
        for each in epoch.ranges:
            self.write_range(LogRange(TopicPartition(each.topic, each.partition), each.start, each.end))

    def write_range(self, range_: LogRange) -> None:
        values = [b"%d" % offset for offset in range(range_.start, range_.end)]
        outgoing = OutgoingColumns([self.target] * len(values), values)
        write_range(self.readings[-1], range_, [outgoing], lambda batch: cast(OutgoingColumns, batch), lambda: None)

    def values(self) -> list[int]:
        with CommittedReader(self.bootstrap, [self.target]) as reader:
            return [int(one.value or b"") for one in reader.read_all(60)]


@pytest.fixture
def stage(kafka: EmbeddedKafka, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamStage]:
    made = StreamStage(kafka.bootstrap_servers, topic_name, monkeypatch)
    yield made
    made.end()


def test_records_deleted_above_the_groups_offset_are_skipped(stage: StreamStage) -> None:
    stage.produce(5)
    first = stage.start()
    eventually(lambda: stage.offsets() == {0: 5, 1: 0}, within_s=60)
    first.control.stop()
    first.thread.join(60)
    stage.produce(10)
    stage.delete_before(9)
    stage.start()
    eventually(lambda: stage.offsets() == {0: 15, 1: 0}, within_s=60)
    assert stage.values() == [*range(5), *range(9, 15)]
    committed = EpochOffset.of(stage.committed()[0])  # in a transaction of its own
    assert (committed.leader_epoch, committed.has_known_log) == (0, True)


def test_transactions_left_open_by_a_stopped_stream_are_aborted(stage: StreamStage) -> None:
    spec = stage.start().spec
    settings = WorkerSettings(WorkerConfig({**SETTINGS, "group.id": "g"}), "http://w:1", "me")
    writers = [
        TransactionalWriter(spec.output.producer_conf, id_)
        for id_ in (
            range_id(str(spec.output.transactional_id), TopicPartition("any", 7)),
            f"{spec.output.transactional_id}-other",
        )
    ]
    for number, writer in enumerate(writers):
        writer.open()
        writer.send(stage.target, b"%d" % number)
        writer.flush()  # now the coordinator lists it as open
    TaskFence(settings).lock_out(spec)
    with pytest.raises((WriterFencedError, CommitUnknownError)):  # refused; the client cannot know that it was certain
        writers[0].commit()
    writers[1].commit()
    assert stage.values() == [1]
    for writer in writers:
        writer.close()


def test_range_does_not_wait_for_a_transaction_left_open_in_another_range(stage: StreamStage) -> None:
    """The next attempt at that one ends it, which may have to wait for a core that this one has."""

    def leave_open(epoch: Epoch) -> None:
        output = stage.readings[-1].output
        assert output is not None
        killed = TransactionalWriter(
            output.producer_conf, range_id(output.transactional_id, TopicPartition(stage.topic, 1))
        )
        killed.open()
        killed.send(stage.target, b"99")
        killed.send_group_offsets([GroupOffset(stage.topic, 1, 3)], bytes.fromhex(output.metadata))
        killed.close()

    stage.store.before["write"] = leave_open
    for partition in (0, 1):
        stage.produce(3, partition)
    stage.start()
    eventually(lambda: stage.offsets() == {0: 3, 1: 3}, within_s=40)  # less than it would wait
    assert sorted(stage.values()) == [0, 0, 1, 1, 2, 2]


def test_an_epoch_of_a_stream_is_a_trace_that_executors_continue(
    stage: StreamStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    traced = Traced()
    monkeypatch.setattr(frame_task, "tracing_of", lambda spec: traced.tracing)
    stage.produce(5)
    stage.start()
    eventually(lambda: f"process {stage.topic}" in traced.names, within_s=60)
    batch = traced.spans[f"process {stage.topic}"]
    [(name, value)] = stage.readings[0].headers
    assert (name, int(value.split(b"-")[2], 16)) == ("traceparent", id_of(batch))
    assert parent_of(traced.spans["write"]) == id_of(batch)
    assert "commit" not in traced.names  # it is part of `write`
