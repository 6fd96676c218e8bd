"""The task of a DataFrame sink on the real broker, with a Spark and a store that are made up.

The store notes what it is asked to write and to show; the verdicts are about offsets.
"""

import contextlib
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from fencepost.api import DataFrameSink, Epoch, OffsetRange
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.setting.client_settings import sink_conf
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.spark.slot.cores import CoreLedger
from fencepost.spark.slot.job import ProcessEnds
from fencepost.task.channel.message import Admission, TaskReport
from fencepost.task.channel.split_message import Whereabouts
from fencepost.task.channel.task_spec import DeadLetterSpec, InputSpec, OutputSpec, TaskSpec
from fencepost.task.sink.epoch_plan import EpochMetadata
from fencepost.worker.host.epoch import membership as epoch_work
from fencepost.worker.host.epoch import sink_and_stream as epoch_task
from fencepost.worker.host.epoch.sink_and_stream import EpochSinkTask
from support.group_commit import put_at


class Held:
    """The first work that comes to a step hangs there until it is released; other work passes."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s
        self._met, self._released = threading.Event(), threading.Event()

    def __call__(self, epoch: Epoch) -> None:
        if not self._met.is_set():
            self._met.set()
            self._released.wait(self._longest_s)

    def await_met(self) -> None:
        assert self._met.wait(120)

    def release(self) -> None:
        self._released.set()


class Store:
    """What the sinks of a test write to: aside by token, then shown, range by range."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.written: dict[str, Epoch] = {}
        self.aside: dict[str, set[OffsetRange]] = {}  # by token: what was written for it and not moved yet
        self.shown: list[OffsetRange] = []
        self.letters: list[Epoch] = []  # whose dead letters are safe
        self.newest = 0  # the number of an epoch
        self.lock = threading.Lock()
        self.before: dict[str, Callable[[Epoch], object]] = {}  # by step: called ahead of it, in the work's thread

    def at(self, step: str, epoch: Epoch) -> None:
        self.before.get(step, lambda _: None)(epoch)

    def hold(self, step: str, longest_s: float = 300) -> Held:
        """Let the first work that comes to a step hang."""
        held = Held(longest_s)
        self.before[step] = held
        return held

    def move(self, token: str, piece: OffsetRange) -> None:
        """Show a piece, unless it was moved before: the same piece that was written again is shown again."""
        with self.lock:
            if piece in self.aside[token]:
                self.aside[token].remove(piece)
                self.shown.append(piece)

    def ranges(self, topic: str | None = None) -> list[tuple[int, int, int]]:
        """Return partition, start and end of all that is shown, sorted; what is shown twice is there twice."""
        with self.lock:
            return sorted((r.partition, r.start, r.end) for r in self.shown if r.topic == (topic or self.topic))

    def holds(self, ends: dict[int, int]) -> None:
        """Check that each partition is shown from its start to an end, without gap or overlap."""
        reached = dict.fromkeys(ends, 0)
        for partition, start, end in self.ranges():
            assert start == reached[partition], self.ranges()
            reached[partition] = end
        assert reached == ends, self.ranges()


class Sink(DataFrameSink):
    store: Store

    def started(self, session: Any, number: int, tokens: Any) -> int:
        return self.store.newest

    def write(self, session: Any, frame: Any, epoch: Epoch) -> str:
        self.store.newest = max(self.store.newest, epoch.number)
        token = uuid.uuid4().hex
        self.store.at("write", epoch)
        with self.store.lock:
            self.store.written[token] = epoch
            self.store.aside[token] = set(epoch.ranges)
        self.store.at("after write", epoch)
        return token

    def publish(self, session: Any, epoch: Epoch, token: str) -> None:
        self.store.at("publish", epoch)
        assert set(self.store.written[token].ranges) >= set(epoch.ranges)
        for number, each in enumerate(epoch.ranges):
            if number:
                self.store.at("during publish", epoch)
            self.store.move(token, each)
        self.store.at("after publish", epoch)

    def published(self, session: Any, epoch: Epoch, token: str) -> None:
        self.store.at("published", epoch)


def read_frame(
    self: Any, session: Any, epoch: Epoch, url: str, run: str, tally: Any, schemas: Mapping[str, int]
) -> Epoch:
    """Stand in for the frame of an epoch."""
    return epoch


class Runtime:
    is_alive = True
    sparkContext = None  # noqa: N815

    @property
    def session(self) -> Any:
        return self

    def adopt_thread(self, tag: str) -> None: ...

    def driver_thread(self) -> int:
        return 1


class Stage:
    """A topic of two partitions, and starts of the task, one after the other or at the same time."""

    session_ms = "20000"
    """Of the members: longer than a machine stands still."""

    def __init__(self, bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch, partitions: int = 2) -> None:
        self.bootstrap, self.topic, self.store = bootstrap, topic, Store(topic)
        self.reports: list[TaskReport] = []
        self.tasks: list[EpochSinkTask] = []
        monkeypatch.setattr(epoch_work, "job_group", lambda *_: contextlib.nullcontext())
        monkeypatch.setattr("fencepost.worker.host.frame.jobs.cancel_group", lambda *_: None)
        monkeypatch.setattr(epoch_work, "_LAST_WORK_S", 0.5)
        monkeypatch.setattr("fencepost.spark.epoch.frame.EpochFrames.frame", read_frame)
        monkeypatch.setattr("fencepost.spark.epoch.frame.EpochFrames.left_out", lambda self, session, epoch, *_: epoch)
        monkeypatch.setattr(epoch_task, "write_dead_letters", lambda epoch, *_: self._write_dead_letters(epoch))
        Admin({"bootstrap.servers": bootstrap}).topics.create(topic, partitions=partitions, replication=1)

    def _write_dead_letters(self, epoch: Epoch) -> int:
        self.store.at("letters", epoch)
        self.store.letters.append(epoch)
        return 1

    @property
    def group(self) -> str:
        return f"connect-{self.topic}"

    def produce(self, count: int, *partitions: int, topic: str | None = None) -> None:
        """Write so many records to each of these partitions, or to the first one."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for partition in partitions or (0,):
            for number in range(count):
                producer.produce(topic or self.topic, str(number).encode(), partition=partition)
        assert producer.flush(30) == 0

    def offsets(self, topic: str | None = None) -> dict[int, int]:
        found = GroupOffsets({"bootstrap.servers": self.bootstrap}, self.group).read()
        return {place.partition: offset for place, offset in found.items() if place.topic == (topic or self.topic)}

    def committed(self) -> list[GroupOffset]:
        """Return the group's offsets, sorted by partition."""
        return sorted(GroupOffsets({"bootstrap.servers": self.bootstrap}, self.group).read_with_metadata())

    def alter(self, offsets: dict[TopicPartition, int]) -> None:
        """Set where the group stands."""
        put_at(GroupOffsets({"bootstrap.servers": self.bootstrap}, self.group), offsets)

    def note(self) -> EpochMetadata:
        """Return what stands with the offset of partition 0."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group})
        (found,) = consumer.committed([ClientPartition(self.topic, 0)], 30)
        consumer.close()
        return EpochMetadata.of_text(found.metadata or "")

    def delete_before(self, offset: int) -> None:
        """Delete what is below an offset of partition 0, as retention does."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        for done in admin.delete_records([ClientPartition(self.topic, 0, offset)]).values():
            done.result(30)

    def start(
        self,
        via: str | None = None,
        *,
        auto_offset_reset: str = "earliest",
        is_paused: bool = False,
        topics: Sequence[str] = (),
        **settings: str,
    ) -> EpochSinkTask:
        """Begin a start of the task, whose member finds the broker at `via`. `topics` are others than the stage's."""
        topics = topics or [self.topic]
        consumer = {
            "bootstrap.servers": via or self.bootstrap, "session.timeout.ms": self.session_ms,
            "heartbeat.interval.ms": "300", "metadata.max.age.ms": "1000",
            "auto.offset.reset": auto_offset_reset,
        }  # fmt: skip
        config = {
            "name": "c", "connector.class": "X", "topics": ",".join(topics), "epoch.interval.ms": "100",
            "key.converter": "StringConverter", "value.converter": "StringConverter", **settings,
        }  # fmt: skip
        servers = {"bootstrap.servers": self.bootstrap}
        member = dict(sink_conf(consumer, self.group, "test").conf)
        spec = TaskSpec(
            "c", 0, 1, uuid.uuid4().hex, config, config,
            output=OutputSpec(admin_conf=servers),
            input=InputSpec(member, tuple(topics), reader_admin_conf=servers),
            dead_letters=DeadLetterSpec(config.get("errors.deadletterqueue.topic.name", ""), replication=1),
        )  # fmt: skip
        task = self.made(spec)
        if is_paused:
            task.control.pause()
        self.tasks.append(task)
        task.thread.start()
        return task

    def made(self, spec: TaskSpec) -> Any:
        """Return the task that is to be started."""
        return EpochSinkTask(cast(Any, self), spec, Runtime())

    # the host

    @property
    def events(self) -> Any:
        return self

    @property
    def admissions(self) -> Any:
        return self

    ledger = CoreLedger(4)
    url = ""
    ends = ProcessEnds()

    def connector_of(self, name: str) -> type[Any]:
        return type("StoringSink", (Sink,), {"store": self.store})

    def decide(self, *_: object) -> Admission:
        return Admission(True)

    @property
    def channel(self) -> Any:
        return self

    def add(self, entry: object) -> str:
        return ""

    def remove(self, name: str) -> None: ...

    def whereabouts(self, name: str) -> Sequence[Whereabouts]:
        return ()

    def reported(self, reports: list[TaskReport]) -> None:
        self.reports += reports

    def lost(self, incarnations: object, reason: str) -> None: ...

    def ended(self, incarnation: str) -> None: ...

    def end(self) -> None:
        """Stop what runs, cleanly."""
        for task in self.tasks:
            task.control.stop()
        for task in self.tasks:
            task.thread.join(60)
            assert not task.thread.is_alive()


def crash(task: EpochSinkTask) -> None:
    """End a start as a killed process does: nothing more is committed or written; its membership is over."""
    task.abandon()
    input_ = task.membership.input
    task.membership.input = None
    if input_ is not None:
        input_._assignment.abandon()
        input_._client.consumer.close()
