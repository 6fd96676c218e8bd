"""What source and sink connectors have in common: a connector plans work, and its tasks move data."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from fencepost.config import Config, SettingValue

if TYPE_CHECKING:  # a default is known to type checkers, and to Python from 3.13 on
    from typing_extensions import TypeVar

    ConfigT = TypeVar("ConfigT", default=Any)
else:
    from typing import TypeVar

    ConfigT = TypeVar("ConfigT")
"""The class of a task's `config`: the connector's. Without one, as in `class MyTask(SourceTask)`, it is not checked."""


class ConnectorContext(Protocol):
    """What the runtime offers a connector.

    >>> from fencepost.api import SourceConnector
    >>> class TablesConnector(SourceConnector):
    ...     def table_appeared(self) -> None:  # in a thread of the connector
    ...         self.context.request_task_reconfiguration()
    """

    def request_task_reconfiguration(self) -> None:
        """Ask the runtime to call `task_configs` again soon. May be called from any thread."""

    def raise_error(self, error: Exception) -> None:
        """Fail the connector from one of its own threads."""

    def remark(self, text: str | None) -> None:
        """Show a problem of a running connector in its status, as its `trace`. None clears it.

        The text is also cleared when the connector ends.
        """

    def offsets(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Read all source offsets that the connector has committed by now, as (partition, offset) pairs."""


class Connector(Config):
    """Plans work: a `SourceConnector` or a `SinkConnector`.

    >>> from fencepost.api import Connector, SinkConnector, StreamConnector
    >>> issubclass(SinkConnector, Connector) and issubclass(StreamConnector, SinkConnector)
    True
    """

    task: ClassVar[type[Any]]
    version: ClassVar[str] = "0.1.0"
    converters: ClassVar[Mapping[str, str]] = {}
    """Default classes of `key.converter`, `value.converter` and `header.converter`, used instead of the worker's when a
    config names none. For a connector whose records are already bytes, for example."""

    context: ConnectorContext

    client_prefixes: ClassVar[tuple[str, ...]] = ()
    """Prefixes of the keys that configure the connector's own Kafka clients. As with overrides of the worker's clients,
    settings under these prefixes are refused if they make a worker load code, read files or reach other hosts."""

    def start(self) -> None:
        """Start watching the outside system, if planning needs that. An exception fails the connector."""

    def stop(self) -> None:
        """Stop what `start` started."""

    def task_configs(self, max_tasks: int) -> list[dict[str, Any]]:
        """Return the properties of each task, for at most `max_tasks` tasks.

        By default there is one task, with the connector's own properties. Values may be strings, numbers, booleans,
        Paths, Enums and lists of these; any other type fails the connector. They are stored as text, and the fields of
        the task's `config` parse them again.

        Raises:
            RetriableError: this is called again soon; the running tasks continue.
        """
        return [{k: str(v) for k, v in self.originals.items() if v is not None}]

    @classmethod
    def refusal_to_follow(cls, former: "type[Connector]") -> str | None:
        """Return why a config change must not turn a connector of class `former` into this class; None allows it.

        One reason to refuse: this class would not find the offsets that `former` has committed.
        """
        return None

    @classmethod
    def validate(cls, properties: Mapping[str, object]) -> list[SettingValue]:
        """Check a config before it is accepted. Returns one result per declared key."""
        return cls.validate_values(properties)
