"""Waits until connectors run."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fencepost.cluster.glance import AT_REST, connector_word, task_words
from fencepost.telemetry.traces import reason_in

if TYPE_CHECKING:
    from fencepost.cli.connect import Connect
    from fencepost.cli.masking import Masking

_LOOK_EVERY_S = 0.5


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
        pause(_LOOK_EVERY_S)


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
