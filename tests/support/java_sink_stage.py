"""The task of a Java sink, between the real loop of a sink and a host that takes notes."""

import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from fencepost.api import SinkRecord
from fencepost.builtin.converter.plain import ByteArrayConverter
from fencepost.builtin.java.error import JavaRetriableError, Thrown
from fencepost.builtin.java.port import Errant
from fencepost.builtin.java.sink_task import JavaSinkTask
from fencepost.builtin.transform.chain import Chain
from fencepost.kafka.value.fetched import Fetched
from fencepost.plugin import PluginKind
from fencepost.record import TopicPartition
from fencepost.task.channel.task_spec import InputSpec, OutputSpec, TaskSpec
from fencepost.task.failure.tolerance import Tolerance
from fencepost.task.sink.context import HostedContext, Reporter
from fencepost.task.sink.loop import SinkLoop
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.start.run import SinkCounters, TaskRun
from support.group_stage import GroupStage, Moment, fetched
from support.jars import SINK
from support.java_host import ScriptedHost, ScriptedJava, ScriptedSink
from support.scripted_plugins import plugins_with

TABLE = "org.example.TableSinkConnector"
THROWN = Thrown("java.lang.IllegalStateException", "no table", "stack")
AWAY = JavaRetriableError("the table is away", THROWN)
CONFIG = {
    "name": "table",
    "connector.class": TABLE,
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "header.converter": "SimpleHeaderConverter",
}


def membership(generation: int) -> bytes:
    return b"CGMDv2:" + generation.to_bytes(4, sys.byteorder) + b"connect-table\0m1\0\1"


class Letters:
    """Dead letters. `answers` are what `settle` returns, and `refusals` what `add` raises, once each; None: nothing."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.taken: list[tuple[SinkRecord, str, str, Exception]] = []
        self.answers: list[bool] = []
        self.refusals: list[Exception | None] = []
        self.written: Callable[[], Future[None]] = Future

    def add(self, record: SinkRecord, stage: str, class_name: str, error: Exception) -> "Future[None]":
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None:
            raise refusal
        self.log.append(("letter", record.kafka_offset))
        self.taken.append((record, stage, class_name, error))
        return self.written()

    def settle(self, timeout_s: float) -> bool:
        return self.answers.pop(0) if self.answers else True


class Stage(GroupStage):
    def __init__(
        self,
        directory: Path,
        *script: Any,
        tolerates: bool = True,
        reports: bool = True,
        most_records: int | None = None,
    ) -> None:
        super().__init__()
        self.group.metadata = membership(7)  # type: ignore[assignment]
        self.java = ScriptedJava()
        self.java.sink_log = self.log
        self.java.script = list(script)
        self.plugins = plugins_with(directory, {SINK: [TABLE]}, self.java)
        self.counters = SinkCounters()
        self.spec = TaskSpec(
            "table",
            0,
            1,
            "incarnation",
            CONFIG,
            {"task.class": "org.example.TableTask"},
            output=OutputSpec({}, ""),
            input=InputSpec(
                consumer_conf={"group.id": "connect-table", "auto.offset.reset": "earliest"}, most_records=most_records
            ),
        )
        self.context = HostedContext(self.spec, self.control, self.counters.errors)
        tolerance = Tolerance(tolerates, 0, 0, False, False, self.control, "table-0", self.counters.errors)
        converter = ByteArrayConverter({})
        processor = SinkProcessor(Chain(), converter, converter, converter, tolerance)
        self.letters = Letters(self.log)
        reporter = self.context.reporter = Reporter(processor, self.letters)
        tolerance.tell = reporter.tell
        self.context.errant_record_reporter = reporter if reports else None
        self.task = JavaSinkTask()
        self.task.initialize(self.context, self.plugins.find(PluginKind.CONNECTOR, TABLE)({"name": "table"}))
        run = TaskRun(self.spec, self.control, self.counters, lambda *_: None)
        self.loop = SinkLoop(run, self.task, self.context, processor, self.letters)
        self.context.next_offsets = self.loop.next_offsets

    @property
    def host(self) -> ScriptedHost:
        return self.java.hosts[-1]

    @property
    def sink(self) -> ScriptedSink:
        return self.java.sinks[-1]

    def run(self, *moments: Moment) -> list[Any]:
        """Start the task, run its loop over what a group does, and stop it, as a runner does."""
        self.moments += moments
        try:
            self.task.start()
            self.loop.run(self.group)
        finally:
            self.task.stop()
        return self.log

    def commits(self) -> Fetched:
        self.context.request_commit()
        return Fetched()

    def committed(self) -> list[Any]:
        return [what[1] for what in self.log if what[0] == "commit"]


def errant(
    place: TopicPartition,
    offset: int,
    class_name: str,
    message: str | None,
    *,
    key: bytes | None = None,
    value: bytes | None = b"v",
) -> Errant:
    """Return a record as Java reports it."""
    return Errant(SinkRecord(*place, offset, value, key=key, at=place), class_name, message)


def records(*places: Any) -> Moment:
    return lambda: fetched(*places)
