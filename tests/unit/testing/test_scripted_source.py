"""The source that follows a script: what a task returns, and what the verdict expects."""

from typing import Any

import pytest

from fencepost.api import RetriableError
from fencepost.plugin import PluginKind, PluginRegistry
from fencepost.testing.source import (
    COMMIT,
    CONNECTOR_CLASS,
    CRASH,
    HANG,
    PLUGIN_PATH,
    RAISE,
    RETRY,
    UPDATE_OFFSETS,
    ScriptedError,
    ScriptedRecord,
    TestingSource,
)
from fencepost.testing.verdict import Observation, judge


class Memory:
    """Marks without a topic."""

    def __init__(self) -> None:
        self.marks: list[str] = []

    def count(self, mark: str) -> int:
        return self.marks.count(mark)

    def set(self, mark: str) -> None:
        self.marks.append(mark)


class Context:
    """A context that stands at an offset; told to stop after one wait."""

    transaction = None
    configs: dict[str, str] = {}

    def __init__(self, offset: dict[str, Any]) -> None:
        self._offset = offset
        self.is_stopping = False

    def offset(self, partition: Any) -> dict[str, Any]:
        return self._offset

    def wait(self, timeout_s: float) -> bool:
        self.is_stopping = True
        return True


def started(source: TestingSource, memory: Memory, place: int = 0, number: int = 0):
    cls = PluginRegistry([PLUGIN_PATH]).find(PluginKind.CONNECTOR, CONNECTOR_CLASS)
    connector = cls(source.properties())
    config = connector.task_configs(9)[number]
    task = cls.task()
    task.initialize(Context({"place": place} if place else {}), cls(config))
    task.start()
    task.marks = memory
    return task


def given(task) -> list[str]:
    return [record.value for record in task.poll() or []]


def source(*scripts) -> TestingSource:
    return TestingSource(*scripts, topic="t", bootstrap="nowhere:1")


def test_records_before_a_command_come_at_once_and_later_ones_after_it():
    task = started(source(["a", "b", RETRY(), "c"]), Memory())
    assert len(given(task)) == 2
    with pytest.raises(RetriableError):
        task.poll()
    assert given(task) == []
    assert len(given(task)) == 1
    assert given(task) == []


def test_command_runs_its_number_of_times_over_all_incarnations():
    script, memory = source(["a", RAISE("boom", times=2), "b"]), Memory()
    for _ in range(2):
        with pytest.raises(ScriptedError, match="boom"):
            started(script, memory, place=1).poll()
    task = started(script, memory, place=1)
    assert given(task) == []
    assert len(given(task)) == 1


@pytest.mark.parametrize(
    ("at", "method"), [(UPDATE_OFFSETS, lambda t: t.update_offsets({})), (COMMIT, lambda t: t.commit())]
)
def test_command_for_another_method_holds_records_back_until_its_call(at, method):
    memory = Memory()
    task = started(source(["a", RAISE(at=at), "b"]), memory)
    assert len(given(task)) == 1
    assert given(task) == []
    with pytest.raises(ScriptedError):
        method(task)
    again = started(source(["a", RAISE(at=at), "b"]), memory)
    assert len(given(again)) == 1
    method(again)
    assert len(given(again)) == 1


def test_hanging_task_returns_when_it_is_stopped():
    task = started(source([HANG(), "a"]), Memory())
    assert task.poll() is None
    assert task.context.is_stopping


def test_scripted_source_gives_the_records_that_the_verdict_expects():
    script = source(["a", CRASH(), ScriptedRecord("b", key="k")], [ScriptedRecord("c", topic="other")])
    memory = Memory()
    memory.set("0/1")
    seen = []
    for number in (0, 1):
        task = started(script, memory, number=number)
        for record in [r for _ in range(4) for r in task.poll() or []]:
            seen.append(Observation(record.topic, 0, record.key and record.key.encode(), record.value.encode()))
    assert script.expected == {0: [0, 2], 1: [0]}
    verdict = judge(script.expected, seen, sighting=script.sighting, is_at_home=script.is_at_home)
    assert verdict.is_clean, verdict
    moved = [seen[0]._replace(topic="elsewhere"), *seen[1:]]
    assert judge(script.expected, moved, sighting=script.sighting, is_at_home=script.is_at_home).misrouted
