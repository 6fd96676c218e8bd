"""Connectors as workers describe them, and the wait until they run."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.cluster.glance import (
    AT_REST,
    connector_word,
    delivery_word,
    kind_word,
    task_words,
    why_not_exactly_once,
)
from fencepost.config import ConfigError
from fencepost.config.version import matches
from fencepost.telemetry.traces import reason_in

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect
    from fencepost.cli.masking import Masking


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


LOOK_EVERY_S = 0.5


def await_running(
    connect: "Connect",
    wanted: Mapping[str, str | None],
    within_s: float,
    masking: "Masking",
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, str]:
    """Wait until connectors and their tasks run, or rest. Returns the others, each with the reason.

    One that has failed is not waited for; one that tries again what has failed does not run yet.

    Args:
        wanted: The connectors, each with the state that it was brought to; None: any in which it runs or rests.
    """
    ending = time.monotonic() + within_s
    waiting, failed = list(wanted), {}
    while True:
        found = {name: _look(connect, name) for name in waiting}
        for name, one in found.items():
            if trace := _failure(one["status"]):
                failed[name] = reason_in(masking.text(trace))
        waiting = [name for name, one in found.items() if name not in failed and not _is_done(one, wanted[name])]
        if not waiting or time.monotonic() > ending:
            late = {name: f"{_words(found[name])} after {within_s:g} s" for name in waiting}
            return {**failed, **{name: late[name] + _why(found[name], masking) for name in waiting}}
        pause(LOOK_EVERY_S)


def _look(connect: "Connect", name: str) -> dict[str, Any]:
    """Return a connector's status, and if all of it runs its figures, which say whether a task tries again."""
    status = connect.find("connectors", name, "status")
    one = {"status": status, "figures": None}
    if status and connector_word(one) == "RUNNING":
        one["figures"] = connect.find("connectors", name, "figures")
    return one


def _words(one: Mapping[str, Any]) -> str:
    return ", ".join([one["status"]["connector"]["state"], *task_words(one)]) if one["status"] else "no status"


def _why(one: Mapping[str, Any], masking: "Masking") -> str:
    """Return what the first task that does not run says, such as in which call it is."""
    status = one["status"] or {"connector": {}, "tasks": ()}
    traces = (each.get("trace") for each in (status["connector"], *status["tasks"]))
    reason = reason_in(masking.text(str(next(filter(None, traces), ""))))
    return f": {reason}" if reason else ""


def _is_done(one: Mapping[str, Any], wanted: str | None) -> bool:
    status = one["status"]
    if not status:
        return False
    state = status["connector"]["state"]
    if state in AT_REST:
        return wanted in (None, state)
    return wanted not in AT_REST and connector_word(one) == "RUNNING" and bool(status["tasks"])


def _failure(status: Any) -> str:
    if not status:
        return ""
    found = (one for one in (status["connector"], *status["tasks"]) if one["state"] == "FAILED")
    return next((str(one.get("trace") or "no trace") for one in found), "")
