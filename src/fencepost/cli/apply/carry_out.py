"""Carries a plan out, step by step, and says exactly what was done."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fencepost.cli.apply.plan import Action, Plan, Step
from fencepost.cli.connect import Connect, RefusedError
from fencepost.cli.masking import Masking
from fencepost.config import ConfigError

_REQUESTS = {"RUNNING": "resume", "PAUSED": "pause", "STOPPED": "stop"}
_DONE = {Action.CREATE: "created", Action.CHANGE: "changed", Action.DELETE: "deleted", Action.NONE: "unchanged"}
_NO_ANSWER = "no answer, so it may have been done or not; run the command again: "


@dataclass(frozen=True)
class Result:
    """What became of a step; `error` says why it was not, or may not have been, carried out."""

    step: Step
    error: str = ""

    @property
    def text(self) -> str:
        """Return what was done, in a word."""
        return "failed" if self.error else _DONE[self.step.action]

    def to_json(self) -> dict[str, Any]:
        """Return what `--output json` prints."""
        return {**self.step.to_json(), "result": self.text, **({"error": self.error} if self.error else {})}


def carry_out(connect: Connect, plan: Plan, masking: Masking) -> Iterator[Result]:
    """Yield the result of each step once it is carried out.

    A step that fails does not keep others from being tried, but nothing is deleted after one.
    """
    is_failed = False
    for step in plan.steps:
        if step.action is Action.DELETE and is_failed:
            result = Result(step, "not deleted, because something before has failed")
        else:
            result = Result(step, _error(connect, step, masking))
        is_failed = is_failed or bool(result.error)
        yield result


def _error(connect: Connect, step: Step, masking: Masking) -> str:
    try:
        _take(connect, step)
    except RefusedError as error:
        return masking.text(str(error))
    except ConfigError as error:
        return _NO_ANSWER + masking.text(str(error))
    return ""


def _take(connect: Connect, step: Step) -> None:
    if step.action is Action.DELETE:
        connect.delete("connectors", step.name)
    elif step.action is Action.CREATE and step.creation:
        connect.post("connectors", body={"name": step.name, "config": dict(step.config), **step.creation})
    elif step.is_config_changed:
        connect.put("connectors", step.name, "config", body=dict(step.config))
    if step.state is not None:
        connect.put("connectors", step.name, _REQUESTS[step.state])
