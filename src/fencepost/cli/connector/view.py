"""Connectors as workers describe them in a list."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.cluster.glance import connector_word, delivery_word, kind_word, task_words, why_not_exactly_once
from fencepost.config import ConfigError
from fencepost.config.name_pattern import matches

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect


@dataclass(frozen=True)
class ConnectorView:
    """One connector: its info, its status and its figures, as REST has them; Kafka Connect has no figures."""

    name: str
    info: Mapping[str, Any]
    status: Mapping[str, Any]
    figures: Mapping[str, Any] | None = None

    @property
    def config(self) -> dict[str, str]:
        """Return the config, as the worker shows it: Kafka Connect shows secrets."""
        return {key: value for key, value in self.info["config"].items() if value is not None}

    @property
    def kind(self) -> str:
        """Return `source`, `sink`, `stream` or `mirror`."""
        return kind_word(vars(self))

    @property
    def type(self) -> str:
        """Return `source` or `sink`, as REST has it."""
        return str(self.info.get("type") or "unknown")

    @property
    def word(self) -> str:
        """Return the word for its state, in which those of its tasks count."""
        return connector_word(vars(self))

    @property
    def delivery(self) -> tuple[str, str | None]:
        """Return how often what it moves arrives, and why it is not exactly once, with what to change."""
        return delivery_word(vars(self)), why_not_exactly_once(vars(self))

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
        return Counter(self.task_words)

    @property
    def task_words(self) -> list[str]:
        """Return the words for the states of its tasks, in their order."""
        return task_words(vars(self))

    def is_in(self, state: str) -> bool:
        """Say whether the connector or one of its tasks is in a state."""
        return state in (self.state, self.word, *self.task_states)


def all_connectors(connect: "Connect", patterns: Sequence[str] = ()) -> list[ConnectorView]:
    """Return the connectors whose names match one of the patterns, or all, by name. Raises as `Connect` does."""
    found: Mapping[str, Any] = connect.get("connectors", expand=["info", "status", "figures"])
    names = [n for n in connect.get("connectors") if not patterns or any(matches(n, each) for each in patterns)]
    views = (
        ConnectorView(name, found[name]["info"], found[name]["status"], found[name].get("figures"))
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
    status = status or {"name": name, "connector": {"state": "UNASSIGNED"}, "tasks": []}
    return ConnectorView(name, info, status, connect.find("connectors", name, "figures"))


def existing_connector(connect: "Connect", name: str) -> ConnectorView:
    """Return one. Raises ConfigError if there is none of this name."""
    found = one_connector(connect, name)
    if found is None:
        raise ConfigError(f"{connect.access.named}: there is no connector {name}")
    return found
