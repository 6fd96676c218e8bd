"""What the connectors of sources and of sinks have in common: they plan, their tasks move data."""

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from fencepost.config import Config, SettingValue


class ConnectorContext(Protocol):
    """What the runtime offers a connector."""

    def request_task_reconfiguration(self) -> None:
        """Ask for `task_configs` to be called again, soon, from another thread."""

    def raise_error(self, error: Exception) -> None:
        """Fail the connector from a thread of its own."""

    def remark(self, text: str | None) -> None:
        """Say in the connector's status, as its `trace`, what is amiss though it runs; None: nothing any more.

        It is forgotten when the connector ends.
        """

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return (partition, offset) of everything that the connector has committed, read now."""


class Connector(Config):
    """Plans work: a `SourceConnector` or a `SinkConnector`."""

    task: ClassVar[type[Any]]
    version: ClassVar[str] = "0.1.0"
    converters: ClassVar[Mapping[str, str]] = {}
    """Classes of `key.converter`, `value.converter` and `header.converter` that count, where a config names none, in
    place of the worker's: for a connector whose records are bytes already, say."""

    context: ConnectorContext

    client_prefixes: ClassVar[tuple[str, ...]] = ()
    """What the keys begin with that configure Kafka clients of the connector's own. Settings that would make a worker
    load code, read files or reach other hosts are refused there, as among the overrides of the worker's clients."""

    def start(self) -> None:
        """Begin to watch the outside system, where that is needed to plan. An exception fails the connector."""

    def stop(self) -> None:
        """End what `start` began."""

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        """Return the properties of each task, at most `max_tasks`. By default one task with the connector's.

        They are stored as text, which the fields of the task's `config` read back: numbers, booleans, Paths, Enums and
        lists of these may stand there as they are. Anything else fails the connector.

        Raises:
            RetriableError: asked again soon; the tasks that there are go on.
        """
        return [{k: str(v) for k, v in self.originals.items() if v is not None}]

    @classmethod
    def refusal_to_follow(cls, former: "type[Connector]") -> str | None:
        """Return why a connector of the class `former` must not become one of this class by a change of its config.

        Such as offsets that would not be found again. None: it may.
        """
        return None

    @classmethod
    def validate(cls, properties: Mapping[str, object]) -> list[SettingValue]:
        """Check a config before it is accepted: one answer per declared key."""
        return cls.validate_values(properties)
