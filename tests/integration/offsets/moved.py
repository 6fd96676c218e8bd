"""A connector whose offsets are moved, and what its topics then hold."""

from pathlib import Path
from typing import Any

import httpx

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.storage.offset_topic import OffsetReader, stored
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from support.worker import Worker

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
EVERYWHERE = ["worker's topic", "own topic", "worker's topic, at least once", "own topic, at least once"]


class MovedOffsetsStage:
    """One FileStreamSource of `lines` in a file, and its offsets."""

    def __init__(self, worker: Worker, kafka: EmbeddedKafka, name: str, file: Path, *, has_own_topic: bool) -> None:
        self.worker, self.kafka, self.name, self.file = worker, kafka, name, file
        self.shared_topic = worker.properties["offset.storage.topic"]
        self.offsets_topic = f"{name}-offsets" if has_own_topic else self.shared_topic
        self.has_own_topic = has_own_topic
        self.admin = Admin(self.conf)
        file.write_text("".join(f"{n}\n" for n in range(10)))

    @property
    def conf(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.kafka.bootstrap_servers}

    @property
    def partition(self) -> dict[str, Any]:
        return {"filename": str(self.file)}

    def config(self, **more: str) -> dict[str, Any]:
        own = {"connector.class": FILE_SOURCE, "file": str(self.file), "topic": self.name}
        if self.has_own_topic:
            own["offsets.storage.topic"] = self.offsets_topic
        return own | more

    def create(self, **body: Any) -> httpx.Response:
        return self.worker.create(self.name, self.config(), **body)

    def stop(self) -> None:
        assert self.worker.rest.put(f"/connectors/{self.name}/stop").status_code == 204

    def resume(self) -> None:
        assert self.worker.rest.put(f"/connectors/{self.name}/resume").status_code == 202

    def alter(self, *offsets: tuple[Any, Any]) -> httpx.Response:
        body = {"offsets": [{"partition": p, "offset": o} for p, o in offsets]}
        return self.worker.rest.patch(f"/connectors/{self.name}/offsets", json=body)

    def move(self, position: int) -> httpx.Response:
        return self.alter((self.partition, {"position": position}))

    def reset(self) -> httpx.Response:
        return self.worker.rest.delete(f"/connectors/{self.name}/offsets")

    def offsets(self) -> list[tuple[Any, Any]]:
        """Return what REST says."""
        answer = self.worker.rest.get(f"/connectors/{self.name}/offsets")
        assert answer.status_code == 200, answer.text
        return [(one["partition"], one["offset"]) for one in answer.json()["offsets"]]

    def position(self) -> int | None:
        return next((o["position"] for p, o in self.offsets() if p == self.partition), None)

    def stored(self, topic: str) -> dict[str, Any]:
        """Return the offsets of the connector in a topic, by the file's name, as committed records say."""
        reader = OffsetReader(self.conf, topic)
        try:
            return {str((p or {}).get("filename")): dict(o) for p, o in stored(reader.read_known(self.name, 30))}
        finally:
            reader.close()

    def positions(self, topic: str) -> dict[str, int]:
        """Return the positions of the connector in a topic, by the file's name."""
        return {file: offset["position"] for file, offset in self.stored(topic).items()}

    def lines(self, count: int) -> list[str]:
        """Return what is visible in the data topic once there are `count` records."""
        with CommittedReader(self.kafka.bootstrap_servers, [self.name]) as reader:
            eventually(lambda: len(reader.seen()) >= count, within_s=60)
            return [(o.value or b"").decode() for o in reader.seen()]

    def log_ends(self) -> int:
        """Return how long all partitions of the connector's offsets topic are together, markers counted."""
        count = self.admin.topics.partitions(self.offsets_topic) or 0
        ends = self.admin.offsets.ends([(self.offsets_topic, n) for n in range(count)], read_committed=False)
        return sum(ends.values())
