"""A start waits for the store that has its values, and fails if it cannot have them."""

import threading
from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fencepost import plugin as own_plugins
from fencepost.api import ConfigData, ConfigProvider, RetriableError
from fencepost.plugin import PluginRegistry
from fencepost.plugin.secret_keys import secret_keys
from fencepost.reference import Providers
from fencepost.secret.known import hide, remember
from fencepost.task.channel.message import RunState, TaskReport
from fencepost.task.channel.task_spec import LookUpSpec, OutputSpec, References, TaskSpec
from fencepost.task.start import runner
from fencepost.task.start.run import Counters
from fencepost.task.start.runner import TaskRunner
from fencepost.testing import eventually

DECLARED = {"config.providers": "own", "config.providers.own.class": "Own"}


class Own(ConfigProvider):
    error: ClassVar[Exception | None] = None
    asked: ClassVar[int] = 0

    def get(self, path: str, keys: Set[str]) -> ConfigData:
        type(self).asked += 1
        if self.error is not None:
            raise self.error
        return ConfigData({key: f"value of {key}" for key in keys})


class Life(TaskRunner):
    starts_over = ()

    def __init__(self, report: Any) -> None:
        later = References(DECLARED, {"a": "${own:x}"}, {"b": "${own:y}"})
        super().__init__(TaskSpec("c", 0, 1, "i", {"n": "1"}, {"n": "2"}, look_up=LookUpSpec((), later)), report)
        self.counters = Counters()
        self.ran_with: TaskSpec | None = None
        self.while_running: Callable[[], None] = lambda: None

    def abandon(self) -> None: ...

    def _run_instance(self) -> None:
        self.ran_with = self.spec
        self.while_running()
        self.control.stop()

    def _start_over(self, error: Exception) -> None: ...

    def _close(self) -> None: ...


Waiting = tuple[Life, threading.Thread, list[TaskReport]]


@pytest.fixture(autouse=True)
def _own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "providers_of", lambda settings: Providers(settings, lambda *_: Own))
    monkeypatch.setattr(Own, "error", None)
    monkeypatch.setattr(Own, "asked", 0)


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    """A start that runs in a thread while the store is away, and what it has reported."""
    monkeypatch.setattr(Own, "error", RetriableError("away"))
    reports: list[TaskReport] = []
    life = Life(reports.append)
    thread = threading.Thread(target=life.run)
    thread.start()
    return life, thread, reports


def test_task_runs_with_the_looked_up_values() -> None:
    reports: list[TaskReport] = []
    life = Life(reports.append)
    life.run()
    assert life.ran_with is not None
    assert life.ran_with.connector_config == {"n": "1", "a": "value of x"}
    assert life.ran_with.task_config == {"n": "2", "b": "value of y"}
    assert [report.state for report in reports] == [RunState.STOPPED]


def test_start_retries_until_the_secret_store_answers(waiting: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    life, thread, reports = waiting
    eventually(lambda: Own.asked >= 2, within_s=60)
    assert life.ran_with is None
    monkeypatch.setattr(Own, "error", None)
    thread.join(60)
    assert life.ran_with is not None
    assert [report.state for report in reports] == [RunState.STOPPED]


def test_a_start_that_waits_for_a_store_can_be_stopped(waiting: Waiting) -> None:
    life, thread, reports = waiting
    eventually(lambda: Own.asked >= 1, within_s=60)
    life.control.stop()
    thread.join(60)
    assert not thread.is_alive()
    assert life.ran_with is None
    assert [report.state for report in reports] == [RunState.STOPPED]


def test_start_fails_when_values_cannot_be_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Own, "error", KeyError("nothing there"))
    reports: list[TaskReport] = []
    Life(reports.append).run()
    assert [report.state for report in reports] == [RunState.FAILED]
    assert "a: ${own:x} cannot be looked up: KeyError" in (reports[0].trace or "")


def test_looked_up_values_are_hidden_while_the_task_runs() -> None:
    reports: list[TaskReport] = []
    life = Life(reports.append)

    def fail() -> None:
        for number in range(2_100):
            remember(f"of another task {number:06}")
        raise OSError("cannot log in with value of x")

    life.while_running = fail
    life.run()
    assert "cannot log in with [hidden]" in (reports[-1].trace or "")
    remember("of one more task")
    assert hide("value of x") == "value of x"


def test_literal_secrets_of_a_config_are_hidden() -> None:
    reports: list[TaskReport] = []
    life = Life(reports.append)
    output = OutputSpec({"sasl.username": "worker", "sasl.password": "staple battery"})
    life.spec = replace(life.spec, task_config={"db.password": "Tr0ub4dor"}, look_up=LookUpSpec(), output=output)

    def fail() -> None:
        raise OSError("cannot log in with Tr0ub4dor, or as worker with staple battery")

    life.while_running = fail
    life.run()
    assert "cannot log in with [hidden], or as worker with [hidden]" in (reports[-1].trace or "")


_LOCKED = """
from fencepost.api import Secret, SourceConnector, SourceTask, setting

class LockedTask(SourceTask):
    def poll(self):
        return None

class Locked(SourceConnector):
    task = LockedTask
    pin: Secret = setting("pin", doc="A secret.")
"""


def test_secrets_declared_by_a_plugin_class_are_hidden_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other task of the process has looked for plug-ins yet."""
    (tmp_path / "locked_51.py").write_text(_LOCKED)
    monkeypatch.setattr(own_plugins, "_registry", PluginRegistry())
    secret_keys(
        {"connector.class": "locked_51.Locked", "pin": "Tr0ub4dor"}
    )  # a class that is not there yet is not kept
    reports: list[TaskReport] = []
    life = Life(reports.append)
    config = {"connector.class": "locked_51.Locked", "pin": "Tr0ub4dor"}
    life.spec = replace(life.spec, connector_config=config, look_up=LookUpSpec((str(tmp_path),)))

    def fail() -> None:
        raise OSError("cannot open with Tr0ub4dor")

    life.while_running = fail
    life.run()
    assert "cannot open with [hidden]" in (reports[-1].trace or "")


def test_task_fails_when_its_secrets_cannot_be_determined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "hold_given_secrets", lambda config: 1 // 0)
    reports: list[TaskReport] = []
    Life(reports.append).run()
    assert [each.state for each in reports] == [RunState.FAILED]
