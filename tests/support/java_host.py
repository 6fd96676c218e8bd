"""A host without a JVM: what Java plug-ins would answer is written down by a test."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.api import ExactlyOnceSupport, RecordMetadata
from fencepost.builtin.java.error import HostEndedError, HostKilledError
from fencepost.builtin.java.port import (
    Callbacks,
    CommittedOffsets,
    Description,
    Effects,
    Figures,
    GroupMember,
    HostOptions,
    JavaClass,
    Mark,
    Polled,
    Put,
    PutEffects,
    SinkTaskStart,
    SourceTaskStart,
)
from fencepost.record import Batch, BinaryColumn, Repeated, SinkBatch, TopicPartition


def definition(name: str, kind: str = "STRING", default: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a setting as `definitions` of a host returns it; it is required unless it has a default."""
    made = {
        "name": name,
        "type": kind,
        "required": default is None,
        "default_value": default,
        "importance": "HIGH",
        "documentation": f"The {name}.",
        "group": None,
        "width": "NONE",
        "display_name": name,
        "dependents": [],
        "order": -1,
    }
    return {**made, **more}


def polled(
    number: int, values: Sequence[bytes | None], end: int | None, mark: Mark | None = None, *, is_whole: bool = True
) -> Polled:
    """Return a poll of records for topic `t` from source partition `{"f": 1}`, with the offset after them."""
    import pyarrow as pa

    count = len(values)
    batch = Batch(
        Repeated("t", count),
        BinaryColumn(pa.array(values, pa.binary())),
        Repeated({"f": 1}, count),
        Repeated(None, count),
        ends=() if end is None else (({"f": 1}, {"at": end}),),
    )
    return Polled(number=number, batch=batch, is_whole=is_whole, mark=mark)


@dataclass
class ScriptedTask:
    """A `HostedSourceTask`. Each entry of `script` is what a poll returns, or raises, or a function that is called."""

    host: "ScriptedHost"
    script: list[Any]
    log: list[str] = field(default_factory=list)
    places: list[tuple[int, list[RecordMetadata | None] | None]] = field(default_factory=list)
    is_interrupted: threading.Event = field(default_factory=threading.Event)

    def poll(self, max_bytes: int | None = None) -> Polled | None:
        self.host.ensure_alive()
        self.log.append("poll")
        item = self.script.pop(0) if self.script else None
        item = item() if callable(item) else item
        if isinstance(item, Exception):
            raise item
        return item

    def commit_records(self, number: int, metadata: Sequence[RecordMetadata | None] | None) -> None:
        self.places.append((number, None if metadata is None else list(metadata)))
        written = "all" if metadata is None else f"{sum(each is not None for each in metadata)}"
        self.log.append(f"commit_records {number} {written}")

    def commit(self, offsets: CommittedOffsets) -> None:
        self.host.ensure_alive()
        self.log.append(f"commit {[offset for _, offset in offsets]}")

    def update_offsets(self, offsets: CommittedOffsets) -> CommittedOffsets:
        self.host.ensure_alive()
        return self.host.machine.update(offsets)

    def stop(self, timeout_s: float) -> None:
        self.host.ensure_alive()
        self.log.append("stop")

    def figures(self) -> Figures:
        return self.host.machine.figures

    def interrupt(self) -> None:
        self.log.append("interrupt")
        self.is_interrupted.set()


@dataclass
class ScriptedSink:
    """A `HostedSinkTask`. Each entry of `script` is the effects of a put, or raised, or a function that is called."""

    host: "ScriptedHost"
    script: list[Any]
    log: list[Any]
    allowed: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int]] = dict
    flushed: Effects = field(default_factory=Effects)
    """The effects of each `pre_commit`."""
    closed: Effects = field(default_factory=Effects)
    """The effects of each `close`."""
    batches: list[SinkBatch] = field(default_factory=list)
    members: list[GroupMember | None] = field(default_factory=list)
    is_interrupted: threading.Event = field(default_factory=threading.Event)
    are_again: list[bool] = field(default_factory=list)
    """For each put, whether its rows were refused before."""
    removed: int = 0

    def open(self, partitions: Sequence[TopicPartition], member: GroupMember | None = None) -> Effects:
        self.host.ensure_alive()
        self.log.append(("open", *partitions))
        self.members.append(member)
        return Effects()

    def put(
        self,
        batch: SinkBatch,
        most_rows: int | None = None,
        *,
        is_again: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> PutEffects:
        self.host.ensure_alive()
        if not len(batch):
            return PutEffects(puts=(Put(0),))
        self.batches.append(batch)
        self.are_again.append(is_again)
        self.log.append(("put", *batch.offsets))
        if meanwhile is not None:
            meanwhile()
        item = self.script.pop(0) if self.script else PutEffects()
        item = item() if callable(item) else item
        if isinstance(item, Exception):
            raise item
        found: PutEffects = item
        if not is_again:
            self.removed = found.processing.filtered + len(found.processing.failures)
        return found if found.puts else replace(found, puts=(Put(len(batch), self.removed),))

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> tuple[Mapping[TopicPartition, int], Effects]:
        self.host.ensure_alive()
        self.log.append(("pre_commit", dict(offsets)))
        return self.allowed(offsets), self.flushed

    def close(self, partitions: Sequence[TopicPartition]) -> Effects:
        self.host.ensure_alive()
        self.log.append(("close", *partitions))
        return self.closed

    def stop(self, timeout_s: float) -> None:
        self.host.ensure_alive()
        self.log.append(("stop",))

    def figures(self) -> Figures:
        return self.host.machine.figures

    def interrupt(self) -> None:
        self.log.append(("interrupt",))
        self.is_interrupted.set()


@dataclass
class ScriptedConnector:
    """A `HostedConnector`."""

    host: "ScriptedHost"
    context: Any = None
    task_class: JavaClass = field(default_factory=lambda: JavaClass("org.example.PriceTask"))
    version: str = "7.1"
    configs: list[dict[str, str]] = field(default_factory=lambda: [{"n": "0"}])
    support: ExactlyOnceSupport | None = ExactlyOnceSupport.SUPPORTED
    log: list[str] = field(default_factory=list)
    is_interrupted: threading.Event = field(default_factory=threading.Event)

    def start(self, properties: Mapping[str, str]) -> None:
        self.host.ensure_alive()
        self.log.append("start")
        self.host.machine.in_start(self)

    def figures(self) -> Figures:
        return self.host.machine.figures

    def interrupt(self) -> None:
        self.log.append("interrupt")
        self.is_interrupted.set()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        self.host.ensure_alive()
        return self.configs[:max_tasks]

    def exactly_once_support(self, properties: Mapping[str, str]) -> ExactlyOnceSupport | None:
        return self.support

    def can_define_transaction_boundaries(self, properties: Mapping[str, str]) -> bool:
        return True

    def alter_source_offsets(self, properties: Mapping[str, str], offsets: CommittedOffsets) -> bool:
        self.log.append(f"alter {offsets}")
        return True

    def alter_sink_offsets(self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        self.log.append(f"alter {dict(offsets)}")
        return True

    def stop(self) -> None:
        self.host.ensure_alive()
        self.log.append("stop")

    def close(self) -> None:
        self.log.append("close")


class ScriptedHost:
    """A `JavaHost`. `classes` has what is known of each class by its name: its version and its settings."""

    def __init__(self, options: HostOptions, machine: "ScriptedJava") -> None:
        self.options = options
        self.machine = machine
        self.pid = 1
        self.end: str | None = None
        self.is_killed_by_others = False
        self.is_closed = False

    def ensure_alive(self) -> None:
        if self.end is not None:
            raise (HostKilledError if self.is_killed_by_others else HostEndedError)(self.end)

    @property
    def ask(self) -> "ScriptedHost":
        return self

    def describe(self, java_class: JavaClass) -> Description:
        self.machine.asked.append(f"describe {java_class.name}")
        self.ensure_alive()
        return Description(self.machine.version_of(java_class), self.machine.callbacks)

    def definitions(self, java_class: JavaClass) -> list[dict[str, Any]]:
        self.machine.asked.append(f"definitions {java_class.name}")
        return self.machine.definitions.get(java_class.name, [])

    def validate(self, java_class: JavaClass, properties: Mapping[str, str | None]) -> dict[str, Any]:
        self.machine.asked.append(f"validate {java_class.name}")
        configs = []
        for each in self.machine.definitions.get(java_class.name, []):
            value = properties.get(each["name"], each["default_value"])
            errors = self.machine.faults(each["name"], value)
            shown = {"name": each["name"], "value": value, "recommended_values": [], "errors": errors, "visible": True}
            configs.append({"definition": each, "value": shown})
        return {"name": java_class.name, "error_count": 0, "groups": [], "configs": configs}

    def connector(self, java_class: JavaClass, name: str, context: Any) -> ScriptedConnector:
        self.ensure_alive()
        made = ScriptedConnector(self, context)
        self.machine.connectors.append(made)
        return made

    def source_task(self, start: SourceTaskStart) -> ScriptedTask:
        self.ensure_alive()
        self.machine.starts.append(start)
        made = ScriptedTask(self, list(self.machine.script))
        self.machine.tasks.append(made)
        return made

    def sink_task(self, start: SinkTaskStart) -> ScriptedSink:
        self.ensure_alive()
        self.machine.sink_starts.append(start)
        made = ScriptedSink(self, self.machine.script, self.machine.sink_log)
        self.machine.sinks.append(made)
        return made

    def set_levels(self, levels: Mapping[str, str]) -> None:
        self.ensure_alive()
        self.machine.levels.append(dict(levels))

    def threads(self) -> str:
        return self.machine.threads

    def close(self) -> None:
        self.is_closed = True
        self.end = self.end or "it was closed"

    def kill(self, why: str) -> None:
        self.end = self.end or f"it was killed: {why}"

    def __enter__(self) -> "ScriptedHost":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ScriptedJava:
    """Starts such hosts, and keeps what they are asked."""

    def __init__(self) -> None:
        self.hosts: list[ScriptedHost] = []
        self.asked: list[str] = []
        self.definitions: dict[str, list[dict[str, Any]]] = {}
        self.version_of: Callable[[JavaClass], str] = lambda java_class: "7.1"
        self.faults: Callable[[str, str | None], list[str]] = lambda name, value: []
        self.script: list[Any] = []
        self.callbacks = Callbacks(records=False, places=False, commits=True, updates=False)
        self.update: Callable[[CommittedOffsets], CommittedOffsets] = lambda offsets: []
        self.starts: list[SourceTaskStart] = []
        self.tasks: list[ScriptedTask] = []
        self.sink_starts: list[SinkTaskStart] = []
        self.sinks: list[ScriptedSink] = []
        self.sink_log: list[Any] = []
        self.connectors: list[ScriptedConnector] = []
        self.in_start: Callable[[ScriptedConnector], None] = lambda connector: None
        self.levels: list[dict[str, str]] = []
        self.figures: Figures = []
        self.threads = ""

    def start(self, options: HostOptions) -> ScriptedHost:
        made = ScriptedHost(options, self)
        self.hosts.append(made)
        return made
