"""A flow from one cluster to another, and helpers to set it up and examine it."""

import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from fencepost.builtin.mirror.formats import Checkpoint, OffsetSync
from fencepost.kafka.errors import retry
from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.log_writer import LogWriter
from support.worker import Worker

_PACKAGE = "org.apache.kafka.connect.mirror."


class Flow:
    """From `source` to `target`, where the worker is. Its aliases, so its internal topics, are no other flow's."""

    def __init__(self, worker: Worker, source: LogWriter, target: LogWriter) -> None:
        tag = uuid.uuid4().hex[:6]
        self.worker = worker
        self.source = source
        self.target = target
        self.source_alias, self.target_alias = f"west{tag}", f"east{tag}"
        self._connectors: list[str] = []

    def config(self, kind: str, **more: str) -> dict[str, str]:
        """Return the config of a connector (`Heartbeat`, say); in the keys of `more` dots are written as `__`."""
        return {
            "connector.class": f"{_PACKAGE}Mirror{kind}Connector",
            "source.cluster.alias": self.source_alias,
            "target.cluster.alias": self.target_alias,
            "source.cluster.bootstrap.servers": self.source.bootstrap,
            "target.cluster.bootstrap.servers": self.target.bootstrap,
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "replication.factor": "1",
            **{key.replace("__", "."): value for key, value in more.items()},
        }

    def next_name(self, kind: str) -> str:
        """Return what the next connector that is created is called."""
        return f"{kind.lower()}-{self.source_alias}-{len(self._connectors)}"

    def create(self, kind: str, *, asked: Mapping[str, Any] = MappingProxyType({}), **more: str) -> str:
        """Create a connector, and return its name; `asked` has further fields of the request."""
        name = self.next_name(kind)
        answer = self.worker.create(name, self.config(kind, **more), **asked)
        assert answer.status_code == 201, answer.text
        self._connectors.append(name)
        return name

    def start(self, kind: str, *, tasks: int = 1, asked: Mapping[str, Any] = MappingProxyType({}), **more: str) -> str:
        """Create a connector, and wait until its tasks run."""
        name = self.create(kind, asked=asked, **more)
        self.worker.wait_for_tasks(name, *["RUNNING"] * tasks)
        return name

    def stop(self, name: str) -> None:
        """Delete a connector, and wait until it is gone."""
        self.worker.rest.delete(f"/connectors/{name}")
        eventually(lambda: self.worker.status(name) == {})
        self._connectors.remove(name)

    def clear(self) -> None:
        for name in list(self._connectors):
            self.stop(name)

    def connector_trace(self, name: str) -> str:
        """Return why a connector has failed, once it has."""
        trace = eventually(lambda: self.worker.status(name)["connector"].get("trace"))
        assert isinstance(trace, str)
        return trace

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """Return the source offsets of a connector, as REST has them."""
        found: list[dict[str, Any]] = self.worker.rest.get(f"/connectors/{name}/offsets").json()["offsets"]
        return found

    # topics and groups

    def topic(self, records: int = 100, partitions: int = 1) -> str:
        """Create a topic at the source, and what it is called at the target; both have so many records a partition."""
        name = f"t-{uuid.uuid4().hex[:8]}"
        for writer, topic in ((self.source, name), (self.target, self.remote(name))):
            writer.topic(topic, partitions)
            for partition in range(partitions):
                writer.send(topic, [str(number) for number in range(records)], partition)
        return name

    def remote(self, topic: str) -> str:
        return f"{self.source_alias}.{topic}"

    def group(self, suffix: str = "") -> str:
        """Return the name of a group of this flow."""
        return f"group-{self.source_alias}{suffix}"

    @property
    def groups(self) -> str:
        """Return the value of a connector's setting `groups`: the groups of this flow."""
        return f"group-{self.source_alias}.*"

    def commit(self, group: str, topic: str, *offsets: int, note: str = "") -> None:
        """Commit offsets of a group at the source, of partitions 0 and so on."""
        self._commit(self.source, group, [GroupOffset(topic, p, o, note) for p, o in enumerate(offsets)])

    def commit_at_target(self, group: str, topic: str, *offsets: int) -> None:
        self._commit(self.target, group, [GroupOffset(topic, p, o) for p, o in enumerate(offsets)])

    def committed_at_target(self, group: str) -> dict[tuple[str, int], int]:
        return {(place.topic, place.partition): o for place, o in self._offsets(self.target, group).read().items()}

    def _commit(self, writer: LogWriter, group: str, offsets: list[GroupOffset]) -> None:
        """Commit, also at a broker that has only just started."""
        retry(lambda: self._offsets(writer, group).commit(offsets), 60.0, 0.1)

    def _offsets(self, writer: LogWriter, group: str) -> GroupOffsets:
        return GroupOffsets({"bootstrap.servers": writer.bootstrap}, group)

    # what connectors read and write

    def sync(self, topic: str, *syncs: tuple[int, int], partition: int = 0) -> None:
        """Write offset syncs at the source, as a mirror does."""
        self.source.admin.topics.ensure(self.syncs_topic, partitions=1, replication=1)
        for upstream, downstream in syncs:
            sync = OffsetSync(TopicPartition(topic, partition), upstream, downstream)
            self.source.send(self.syncs_topic, [sync.value()], key=sync.key())

    @property
    def syncs_topic(self) -> str:
        return f"mm2-offset-syncs.{self.target_alias}.internal"

    @property
    def checkpoints_topic(self) -> str:
        return f"{self.source_alias}.checkpoints.internal"

    def checkpoints(self) -> list[Checkpoint]:
        """Return all checkpoints that were written so far."""
        found = self.at_target(self.checkpoints_topic).read_all()
        return [Checkpoint.decode(record.key, record.value) for record in found]

    def positions(self, group: str, topic: str, partition: int = 0) -> list[tuple[int, int]]:
        """Return upstream and downstream offset of the checkpoints of a group and partition, in order."""
        place = TopicPartition(self.remote(topic), partition)
        found = [each for each in self.checkpoints() if (each.group, each.topic_partition) == (group, place)]
        return [(each.upstream_offset, each.downstream_offset) for each in found]

    def await_positions(self, group: str, topic: str, *positions: tuple[int, int], partition: int = 0) -> None:
        """Wait until the checkpoints of a group and partition are just these."""

        def are_there() -> bool:
            found = self.positions(group, topic, partition)
            assert found == list(positions), found
            return True

        eventually(are_there, within_s=60)

    def at_target(self, topic: str) -> CommittedReader:
        """Return a reader of a topic of the target."""
        return CommittedReader(self.target.bootstrap, [topic])
