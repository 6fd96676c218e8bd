"""A connector in a host."""

from collections.abc import Callable, Mapping

from fencepost.api import ExactlyOnceSupport
from fencepost.builtin.java.client.events import Events
from fencepost.builtin.java.client.line import Line
from fencepost.builtin.java.client.session import SessionClient
from fencepost.builtin.java.port import CommittedOffsets, JavaClass, Location
from fencepost.record import TopicPartition


class ConnectorClient(SessionClient):
    """Implements `HostedConnector`."""

    def __init__(self, line: Line, interrupt: Callable[[int], None], events: Events) -> None:
        super().__init__(line, interrupt, events)
        name, path, archives = line.opened["task_class"]
        self.task_class = JavaClass(name, None if path is None else Location(path, tuple(archives)))
        self.version: str = line.opened["version"]

    def start(self, properties: Mapping[str, str]) -> None:
        self._line.result("start", properties=dict(properties))

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self._line.result("task_configs", max_tasks=max_tasks)
        return found

    def exactly_once_support(self, properties: Mapping[str, str]) -> ExactlyOnceSupport | None:
        found = self._line.result("exactly_once_support", properties=dict(properties))
        return None if found is None else ExactlyOnceSupport(found)

    def can_define_transaction_boundaries(self, properties: Mapping[str, str]) -> bool:
        return bool(self._line.result("boundaries", properties=dict(properties)) == "SUPPORTED")

    def alter_source_offsets(self, properties: Mapping[str, str], offsets: CommittedOffsets) -> bool:
        pairs = [(dict(partition), offset) for partition, offset in offsets]
        return bool(self._line.result("alter_source_offsets", properties=dict(properties), offsets=pairs))

    def alter_sink_offsets(self, properties: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        listed = [(partition.topic, partition.partition, offset) for partition, offset in offsets.items()]
        return bool(self._line.result("alter_sink_offsets", properties=dict(properties), offsets=listed))

    def stop(self) -> None:
        self._line.result("stop")

    def close(self) -> None:
        self._events.forget(self._session)
        self._line.close()
