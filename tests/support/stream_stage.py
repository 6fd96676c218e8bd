"""Stream tasks without a worker: the real runner, loop, producers and member of the group, on a real broker."""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.read.log import LogReader
from fencepost.kafka.setting.client_settings import sink_conf, transactional_conf
from fencepost.kafka.setting.table import CLIENT, LIBRDKAFKA
from fencepost.plugin import use_plugin_path
from fencepost.task.channel.message import Admission, TaskReport
from fencepost.task.channel.task_spec import LookUpSpec, TaskSpec
from fencepost.task.stream.runner import StreamRunner
from fencepost.testing import eventually
from fencepost.testing.verdict import Observation
from support.task_spec import changed

PLUGINS = str(Path(__file__).parent / "stream_plugin")
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


class StreamRun:
    """One start of one task."""

    def __init__(self, spec: TaskSpec) -> None:
        self.reports: list[TaskReport] = []
        self.is_admitted = True
        self.runner = StreamRunner(spec, self._admit, self.reports.append)

    def _admit(self, spec: TaskSpec, *, wants_offsets: bool = True) -> Admission:
        return Admission(self.is_admitted)

    @property
    def states(self) -> list[str]:
        return [report.state.value for report in self.reports]

    @property
    def trace(self) -> str:
        """Why the task failed; waits for that."""
        return eventually(lambda: next((r.trace for r in self.reports if r.state == "FAILED"), None)) or ""

    def stop(self, within_s: float = 60.0) -> None:
        self.runner.control.stop()
        if self.runner.thread.ident is not None:
            self.runner.thread.join(within_s)
            assert not self.runner.thread.is_alive(), "the task does not stop"


class StreamStage:
    """A group that reads `source` and writes `target`, both topics named after `name`."""

    def __init__(
        self, bootstrap: str, name: str, partitions: int = 1, target_partitions: int = 1, *, by_records: bool = False
    ) -> None:
        """`by_records`: librdkafka fetches from the beginning on, as a setting requires that only it has."""
        self.bootstrap, self.name = bootstrap, name
        self.by_records = by_records
        self.source, self.target, self.group = f"{name}-in", f"{name}-out", f"connect-{name}"
        self.admin = Admin({"bootstrap.servers": bootstrap})
        self.admin.topics.create(self.source, partitions=partitions, replication=1)
        self.admin.topics.create(self.target, partitions=target_partitions, replication=1)
        self.scripts: dict[str, Any] = (
            use_plugin_path([PLUGINS]).find("connector", "scripted_stream.ScriptedStream").scripts
        )
        self.runs: list[StreamRun] = []
        self._read: dict[str, tuple[LogReader, list[Observation]]] = {}
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})

    def spec(
        self,
        task: int = 0,
        config: Mapping[str, str] | None = None,
        via: str = "",
        client: str = LIBRDKAFKA,
        resets_to: str = "earliest",
        **changes: Any,
    ) -> TaskSpec:
        """`via`: where its clients find the broker; `client`: what its producers are."""
        servers = {"bootstrap.servers": via or self.bootstrap}
        consumer = {**servers, "session.timeout.ms": "6000", "heartbeat.interval.ms": "300"}
        consumer |= {"auto.offset.reset": resets_to, **({"client.rack": "here"} if self.by_records else {})}
        properties = {
            "name": self.name,
            "connector.class": "scripted_stream.ScriptedStream",
            "topics": self.source,
            "target": self.target,
            "key.converter": BYTES,
            "value.converter": BYTES,
            "header.converter": BYTES,
            **(config or {}),
        }
        settings: dict[str, Any] = {
            "producer_conf": {**transactional_conf(servers, "").conf, CLIENT: client},
            "consumer_conf": sink_conf(consumer, self.group, f"{self.name}-{task}").conf,
            "admin_conf": servers,
            "transactional_id": f"g-{self.name}-{task}",
            "topics": (self.source,),
            "look_up": LookUpSpec((PLUGINS,)),
            "offset_flush_interval_ms": 60_000,
            **changes,
        }
        settings["producer_conf"] = {k: v for k, v in settings["producer_conf"].items() if k != "transactional.id"}
        return changed(TaskSpec(self.name, task, 1, uuid.uuid4().hex, properties, properties), **settings)

    def start(self, task: int = 0, **how: Any) -> StreamRun:
        run = StreamRun(self.spec(task, **how))
        self.runs.append(run)
        run.runner.thread.start()
        return run

    def close(self) -> None:
        for run in self.runs:
            run.runner.control.stop()
        for run in self.runs:
            run.stop()
        for reader, _ in self._read.values():
            reader.close()
        del self._producer  # which else would look for a broker that is gone

    def produce(self, values: Sequence[Any], partition: int = 0, topic: str = "", **fields: Any) -> None:
        for value in values:
            self._producer.produce(topic or self.source, str(value).encode(), partition=partition, **fields)
        assert self._producer.flush(60) == 0

    def written(self, topic: str = "") -> list[Observation]:
        """Return what is committed in the target, to its end."""
        name = topic or self.target
        if name not in self._read:
            self._read[name] = LogReader({"bootstrap.servers": self.bootstrap}, name), []
        reader, found = self._read[name]
        reader.read_to_end(60, lambda r: found.append(Observation(name, r.partition, r.key, r.value)))
        reader.rest()
        return list(found)

    def values(self, topic: str = "") -> list[str]:
        return [(one.value or b"").decode() for one in self.written(topic)]

    def await_values(self, count: int, within_s: float = 60.0) -> list[str]:
        """Return the values of the target once there are so many."""
        return eventually(lambda: found if len(found := self.values()) >= count else None, within_s=within_s) or []

    def first(self, topic: str) -> Message:
        """Return the first committed record of a topic, with all that it has."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": topic, "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            message = consumer.poll(60)
            assert message is not None, f"nothing is in {topic}"
            assert message.error() is None, message.error()
            return message
        finally:
            consumer.close()

    def offsets(self) -> dict[int, int]:
        """Return the group's position in the source: markers are written after a commit has returned."""
        found = read_stable({"bootstrap.servers": self.bootstrap}, self.group, 30)
        return {place.partition: at.offset for place, at in found.items() if place.topic == self.source}
