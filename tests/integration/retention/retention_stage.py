"""A worker that empties topics, with the topics, stopped sinks and other groups of a test."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewPartitions

from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.log_writer import LogWriter
from support.worker import Worker


class Stage:
    """Sinks and groups that it makes are gone after `clear`, and so are topics."""

    def __init__(self, worker: Worker, writer: LogWriter, prefix: str, directory: Path) -> None:
        self.worker = worker
        self.writer = writer
        self.prefix = prefix
        self.directory = directory
        self._topics: list[str] = []
        self._sinks: dict[str, str] = {}  # its group, by its name
        self._groups: set[str] = set()

    # topics

    def topic(self, *records: int, name: str = "", **configs: str) -> str:
        """Create a topic with so many records in each partition; it may be emptied unless it is named otherwise."""
        topic = self.writer.topic(name or f"{self.prefix}-{uuid.uuid4().hex[:6]}", len(records), **configs)
        self._topics.append(topic)
        for partition, count in enumerate(records):
            self.writer.send(topic, [str(number) for number in range(count)], partition, key="k")
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        client = AdminClient({"bootstrap.servers": self.writer.bootstrap})
        client.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

        def has_grown() -> bool:
            described = self.writer.admin.topics.get(topic)
            return described is not None and described.partitions == partitions

        eventually(has_grown)
        self.writer.plain.list_topics(topic, timeout=30)

    def starts(self, topic: str) -> list[int]:
        """Return where its logs begin."""
        described = self.writer.admin.topics.get(topic)
        assert described is not None
        found = self.writer.admin.offsets.starts([(topic, p) for p in range(described.partitions)])
        return [found[topic, p] for p in range(described.partitions)]

    def await_starts(self, topic: str, *starts: int) -> None:
        """Wait until its logs begin there, and see that no later round goes further."""
        eventually(lambda: self.starts(topic) == list(starts) or _unexpected(self, topic), within_s=60)
        self.rounds()
        assert self.starts(topic) == list(starts)

    # sinks

    def sink(self, topic: str, *committed: int, name: str = "", state: str = "STOPPED", **config: str) -> str:
        """Create a sink that has committed so far in each partition. It does not run, so that it stays there.

        In keys of its config dots are written as `__`.
        """
        name = name or f"sink-{uuid.uuid4().hex[:6]}"
        given = {
            "connector.class": "FileStreamSink", "file": str(self.directory / f"{name}.txt"), "topics": topic,
            **{key.replace("__", "."): value for key, value in config.items()},
        }  # fmt: skip
        answer = self.worker.create(name, {k: v for k, v in given.items() if v}, initial_state=state)
        assert answer.status_code == 201, answer.text
        self._sinks[name] = given.get("consumer.override.group.id", f"connect-{name}")
        self.commit(name, topic, *committed)
        return name

    def commit(self, sink: str, topic: str, *committed: int) -> None:
        """Move a sink that does not run, by hand."""
        self.set_offsets(self._sinks[sink], topic, *committed)

    def delete_sink(self, sink: str) -> None:
        assert self.worker.rest.delete(f"/connectors/{sink}").status_code == 204

    def stop_sink(self, sink: str) -> None:
        assert self.worker.rest.put(f"/connectors/{sink}/stop").status_code == 204
        group = self._sinks[sink]
        eventually(lambda: not self.writer.admin.groups.describe(group).members, within_s=60)  # it commits last

    def alter(self, sink: str, topic: str, offset: int, partition: int = 0) -> tuple[int, str]:
        """Move it by REST; returns the answer's code and message."""
        place = {"kafka_topic": topic, "kafka_partition": partition}
        body = {"offsets": [{"partition": place, "offset": {"kafka_offset": offset}}]}
        answer = self.worker.rest.patch(f"/connectors/{sink}/offsets", json=body)
        return answer.status_code, answer.json().get("message", "")

    # groups

    def set_offsets(self, group: str, topic: str, *committed: int) -> None:
        """Commit in the name of a group that has no members."""
        self._groups.add(group)
        offsets = {TopicPartition(topic, partition): offset for partition, offset in enumerate(committed)}
        GroupOffsets({"bootstrap.servers": self.writer.bootstrap}, group).alter(offsets)

    def forget(self, group: str) -> None:
        """Delete a group without members."""
        GroupOffsets({"bootstrap.servers": self.writer.bootstrap}, group).delete()
        self._groups.discard(group)

    @contextmanager
    def subscriber(self, group: str, topic: str, **conf: Any) -> Iterator[Consumer]:
        """Subscribe; a consumer that polls becomes a member. In keys dots are written as `_`."""
        given = {key.replace("_", "."): value for key, value in conf.items()}
        consumer = Consumer({
            "bootstrap.servers": self.writer.bootstrap, "group.id": group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", **given,
        })  # fmt: skip
        consumer.subscribe([topic])
        try:
            yield consumer
        finally:
            consumer.close()

    @contextmanager
    def member(self, group: str, topic: str, **conf: Any) -> Iterator[Consumer]:
        """Join a group and read, without committing anything."""
        with self.subscriber(group, topic, **conf) as consumer:
            eventually(lambda: consumer.poll(0.05) is not None, within_s=60)
            yield consumer

    # what the worker says

    def told(self, topic: str) -> dict[str, Any]:
        """Return what the worker says of a topic."""
        answer = self.worker.rest.get(f"/retention/{topic}")
        found: dict[str, Any] = answer.json()
        return found

    def held(self, topic: str, partition: int = 0) -> str:
        """Return what holds a partition."""
        return str(self.told(topic)["partitions"][partition]["held_by"])

    def rounds(self) -> None:
        """Wait until a whole round has passed that began after this was called."""
        for _ in range(2):
            eventually(partial(self._is_decided_but, self._decided()), within_s=60, every_s=0.02)

    def _is_decided_but(self, known: str) -> bool:
        return self._decided() != known

    def _decided(self) -> str:
        """Return when it was decided last; a round that came to nothing is none."""
        return str(self.worker.rest.get("/retention").json()["decided"])

    def refused(self, topic: str, *why: str) -> None:
        """Wait until a round says that nothing goes, for these reasons, and see that nothing has gone."""
        before = self.starts(topic)
        self.rounds()
        said = str(self.told(topic)["refused"])
        assert [each for each in why if each not in said] == [], said
        assert self.starts(topic) == before

    def clear(self) -> None:
        for name in self._sinks:
            self.worker.rest.delete(f"/connectors/{name}")
        self.writer.admin.topics.delete(self._topics)


def _unexpected(stage: Stage, topic: str) -> bool:
    raise AssertionError(f"{stage.starts(topic)}: {stage.told(topic)}")
