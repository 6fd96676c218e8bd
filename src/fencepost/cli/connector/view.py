"""Connectors as workers describe them in a list."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.config import ConfigError
from fencepost.config.name_pattern import matches

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect

AT_REST = frozenset({"PAUSED", "STOPPED"})
"""The states of a connector that is not to run."""


@dataclass(frozen=True)
class ConnectorView:
    """One connector: its info and its status, as REST has them."""

    name: str
    info: Mapping[str, Any]
    status: Mapping[str, Any]

    @property
    def config(self) -> dict[str, str]:
        """Return the config, as the worker shows it: Kafka Connect shows secrets."""
        return {key: value for key, value in self.info["config"].items() if value is not None}

    @property
    def kind(self) -> str:
        """Return `source` or `sink`."""
        return str(self.info.get("type") or self.status.get("type") or "unknown")

    @property
    def short_class(self) -> str:
        """Return its class without the package."""
        return str(self.config.get("connector.class", "")).rpartition(".")[2]

    @property
    def state(self) -> str:
        """Return the state of the connector itself."""
        return str(self.status["connector"]["state"])

    @property
    def worker_id(self) -> str:
        """Return the worker that runs the connector itself."""
        return str(self.status["connector"].get("worker_id", ""))

    @property
    def tasks(self) -> Sequence[Mapping[str, Any]]:
        """Return the tasks' statuses."""
        found: Sequence[Mapping[str, Any]] = self.status.get("tasks", ())
        return found

    @property
    def task_states(self) -> Counter[str]:
        """Return how many tasks are in each state."""
        return Counter(str(task["state"]) for task in self.tasks)

    def is_in(self, state: str) -> bool:
        """Say whether the connector or one of its tasks is in a state."""
        return state in (self.state, *self.task_states)


def all_connectors(connect: "Connect", patterns: Sequence[str] = ()) -> list[ConnectorView]:
    """Return the connectors whose names match one of the patterns, or all, by name. Raises as `Connect` does."""
    found: Mapping[str, Any] = connect.get("connectors", expand=["info", "status"])
    names = [n for n in connect.get("connectors") if not patterns or any(matches(n, each) for each in patterns)]
    views = (
        ConnectorView(name, found[name]["info"], found[name]["status"])
        if name in found
        else one_connector(connect, name)
        for name in sorted(names)
    )
    return [view for view in views if view is not None]


def one_connector(connect: "Connect", name: str) -> ConnectorView | None:
    """Return one; None if there is none of this name.

    Kafka Connect leaves one without a status, such as a new one, out of lists, and says that its status is not found.
    """
    info = connect.find("connectors", name)
    if info is None:
        return None
    status = connect.find("connectors", name, "status")
    return ConnectorView(name, info, status or {"name": name, "connector": {"state": "UNASSIGNED"}, "tasks": []})


def existing_connector(connect: "Connect", name: str) -> ConnectorView:
    """Return one. Raises ConfigError if there is none of this name."""
    found = one_connector(connect, name)
    if found is None:
        raise ConfigError(f"{connect.access.named}: there is no connector {name}")
    return found
