"""Waits until connectors run."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fencepost.cluster.glance import AT_REST
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

    One that has failed is not waited for.

    Args:
        wanted: The connectors, each with the state that it was brought to; None: any in which it runs or rests.
    """
    ending = time.monotonic() + within_s
    waiting, failed = list(wanted), {}
    while True:
        statuses = {name: connect.find("connectors", name, "status") for name in waiting}
        for name, status in statuses.items():
            if trace := _failure(status):
                failed[name] = reason_in(masking.text(trace))
        waiting = [
            name for name, status in statuses.items() if name not in failed and not _is_done(status, wanted[name])
        ]
        if not waiting or time.monotonic() > ending:
            late = {name: f"{_states(statuses[name])} after {within_s:g} s" for name in waiting}
            return {**failed, **late}
        pause(_LOOK_EVERY_S)


def _states(status: Any) -> str:
    return "no status" if not status else ", ".join([one["state"] for one in (status["connector"], *status["tasks"])])


def _is_done(status: Any, wanted: str | None) -> bool:
    if not status:
        return False
    state = status["connector"]["state"]
    if state in AT_REST:
        return wanted in (None, state)
    if wanted in AT_REST:
        return False
    states = {one["state"] for one in (status["connector"], *status["tasks"])}
    return states == {"RUNNING"} and bool(status["tasks"])


def _failure(status: Any) -> str:
    if not status:
        return ""
    found = (one for one in (status["connector"], *status["tasks"]) if one["state"] == "FAILED")
    return next((str(one.get("trace") or "no trace") for one in found), "")
