"""Compares what files want with what is there, and carries the differences out."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from fencepost.cli.connect import Connect, RefusedError
from fencepost.cli.connector.view import ConnectorView
from fencepost.cli.connector_file import Fault, WantedConnector
from fencepost.cli.masking import Masking
from fencepost.cluster.glance import AT_REST
from fencepost.config import ConfigError
from fencepost.config.reference import is_placeholder
from fencepost.config.version import matches
from fencepost.secret.redaction import HIDDEN

FILL = re.compile(r"^\$\{fill:[^}]*\}$")
"""What `export` writes in place of a secret: `apply` keeps the value that the connector has."""

_STARS = re.compile(r"^\*{3,}$")
_FILL_IN = "there is no value to keep: write the secret, or a reference to it such as ${env:NAME}"


class Action(StrEnum):
    """What is done to a connector."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    NONE = "none"


@dataclass(frozen=True)
class KeyChange:
    """One key of a config, with values that may be shown; None: the key is not there."""

    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Step:
    """What is to be done for one connector.

    Attributes:
        config: The config to send.
        changes: The differences in the config.
        state: The state it is brought to; None: none.
        uncompared: Keys of secrets of the file, which the worker hides: they may differ.
    """

    name: str
    action: Action
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    changes: Sequence[KeyChange] = ()
    state: str | None = None
    uncompared: Sequence[str] = ()
    creation: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_config_changed(self) -> bool:
        """Return whether the config has to be validated and sent."""
        return self.action is Action.CREATE or bool(self.changes)

    def to_json(self) -> dict[str, Any]:
        """Return what `--output json` prints."""
        return {
            "name": self.name,
            "action": self.action.value,
            "changes": [vars(each) for each in self.changes],
            **({"state": self.state} if self.state else {}),
            **({"uncompared": list(self.uncompared)} if self.uncompared else {}),
        }


@dataclass(frozen=True)
class Plan:
    """All steps, and what makes them impossible."""

    steps: Sequence[Step]
    faults: Sequence[Fault] = ()

    def of(self, *actions: Action) -> list[Step]:
        """Return the steps with these actions."""
        return [step for step in self.steps if step.action in actions]

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is to be done."""
        return not self.of(Action.CREATE, Action.CHANGE, Action.DELETE)


def plan(
    wanted: Sequence[WantedConnector],
    present: Sequence[ConnectorView],
    masking: Masking,
    *,
    sends_secrets: bool = False,
    owned: Sequence[str] = (),
) -> Plan:
    """Return what makes the cluster what files want.

    Args:
        sends_secrets: Whether secrets that the worker hides are sent: whether they differ is not known.
        owned: Patterns of names; connectors of such a name that no file has are deleted.
    """
    there = {view.name: view for view in present}
    merged, faults = filled(wanted, {name: view.config for name, view in there.items()})
    steps = []
    for each in sorted(merged, key=lambda one: one.name):
        view = there.get(each.name)
        masking.remember(each.config)
        if view is None:
            steps.append(_created(each, masking))
        else:
            masking.remember(view.config)
            steps.append(_changed(each, view, masking, sends_secrets=sends_secrets))
    named = {each.name for each in wanted}
    gone = sorted(n for n in there if n not in named and any(matches(n, pattern) for pattern in owned))
    return Plan((*steps, *(Step(name, Action.DELETE) for name in gone)), faults)


def is_kept(value: str) -> bool:
    """Say whether a value of a file stands for the one that the connector has."""
    return value == HIDDEN or FILL.match(value) is not None


def filled(
    wanted: Sequence[WantedConnector], present: Mapping[str, Mapping[str, str]]
) -> tuple[list[WantedConnector], list[Fault]]:
    """Return the connectors with the values that they have, where their files say so, and what has none.

    Args:
        present: The configs that there are, by name.
    """
    merged, faults = [], []
    for each in wanted:
        config, wrong = _filled(each, present.get(each.name, {}))
        merged.append(replace(each, config=config))
        faults.extend(wrong)
    return merged, faults


def _filled(wanted: WantedConnector, current: Mapping[str, str]) -> tuple[dict[str, str], list[Fault]]:
    config, faults = {}, []
    for key, value in wanted.config.items():
        if _STARS.match(value):
            faults.append(wanted.fault(key, "the value is only stars: write the secret, or a reference to it"))
        elif is_kept(value) and not current.get(key):
            faults.append(wanted.fault(key, _FILL_IN))
        config[key] = current.get(key, value) if is_kept(value) else value
    return config, faults


def _created(wanted: WantedConnector, masking: Masking) -> Step:
    config = wanted.config
    shown = masking.config(config)
    changes = tuple(KeyChange(key, None, shown[key]) for key in sorted(config) if key != "name")
    creation = dict(wanted.creation)
    if wanted.state in AT_REST:
        creation["initial_state"] = wanted.state
    return Step(wanted.name, Action.CREATE, config, changes, creation=creation)


def _changed(wanted: WantedConnector, view: ConnectorView, masking: Masking, *, sends_secrets: bool) -> Step:
    current, config = view.config, wanted.config
    before, after = masking.config(current), masking.config(config)
    changes, uncompared = [], []
    for key in sorted((current.keys() | config.keys()) - {"name"}):
        old, new = current.get(key), config.get(key)
        if old == new:
            continue
        if old is not None and new is not None and HIDDEN in old and not is_placeholder(new) and not sends_secrets:
            uncompared.append(key)
        else:
            changes.append(KeyChange(key, before.get(key), after.get(key)))
    state = _state(wanted.state, view.state)
    action = Action.CHANGE if changes or state else Action.NONE
    return Step(wanted.name, action, config, changes, state, uncompared)


def _state(wanted: str | None, current: str) -> str | None:
    """Return the state to bring a connector to. One that should run and has failed is left to `restart`."""
    if wanted is None or wanted == current or (wanted == "RUNNING" and current not in AT_REST):
        return None
    return wanted


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
