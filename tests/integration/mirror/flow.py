"""A flow from one cluster to another, and what tests set up and look at there."""

import uuid
from typing import Any

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

    def create(self, kind: str, **more: str) -> str:
        """Create a connector, and return its name."""
        name = f"{kind.lower()}-{self.source_alias}-{len(self._connectors)}"
        answer = self.worker.create(name, self.config(kind, **more))
        assert answer.status_code == 201, answer.text
        self._connectors.append(name)
        return name

    def start(self, kind: str, *, tasks: int = 1, **more: str) -> str:
        """Create a connector, and wait until its tasks run."""
        name = self.create(kind, **more)
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

    def at_target(self, topic: str) -> CommittedReader:
        """Return a reader of a topic of the target."""
        return CommittedReader(self.target.bootstrap, [topic])
