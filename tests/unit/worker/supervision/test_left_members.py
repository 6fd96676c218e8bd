"""Which members of a sink's group a start takes out: those that earlier starts of the very task have left."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fencepost.config import ConfigError
from fencepost.config.worker import WorkerConfig
from fencepost.storage import records
from fencepost.storage.change import Assignment, TaskId, WorkerAssignment
from fencepost.worker.settings import WorkerSettings
from fencepost.worker.supervision.fence import TaskFence
from fencepost.worker.supervision.task.handle import HandleState, StartIdentity, TaskHandle
from fencepost.worker.supervision.task.specs import AbandonedError, Preparation, task_spec
from support.memory_topic import MemoryTopic
from support.settings import SETTINGS

TASK = TaskId("out", 1)
CONFIG = {"name": "out", "connector.class": "FileStreamSink", "topics": "t", "tasks.max": "2"}


class LeftMembersStage:
    """A sink of two tasks that is assigned here, and a fence whose removals are recorded."""

    def __init__(self, owner: str = "me", **config: str) -> None:
        self.settings = WorkerSettings(WorkerConfig(SETTINGS), "http://w:1", "me")
        self.fence = TaskFence(self.settings, removal=self)
        self.removed: list[tuple[str, str, bool]] = []
        tasks = [TaskId("out", n) for n in range(2)]
        assignment = Assignment(1, (WorkerAssignment(owner, "http://w:1", ("out",), tuple(tasks)),))
        self.snapshot = MemoryTopic().write(
            records.connector_config("out", {**CONFIG, **{k.replace("_", "."): v for k, v in config.items()}}),
            *(records.task_config(task, {}) for task in tasks),
            records.tasks_commit("out", 2),
            records.assignment(assignment),
        )
        generation = self.snapshot.commit_offsets["out"]
        self.handle = TaskHandle(StartIdentity(TASK, generation, "i", is_sink=True), "STARTED")

    def remove(self, conf: Mapping[str, Any], is_due: Callable[[], bool]) -> None:
        """Stand in for `MemberRemoval`."""
        self.removed.append((conf["group.id"], conf["client.id"], is_due()))

    def prepare(self) -> None:
        read = lambda timeout_s: self.snapshot  # noqa: E731
        never: Any = None
        Preparation(self.settings, never, read, threading.Event(), self.fence.remove_members).prepare(self.handle)


def test_start_removes_members_with_the_client_id_of_its_task() -> None:
    scene = LeftMembersStage()
    scene.prepare()
    assert scene.removed == [("connect-out", "connector-consumer-out-1", True)]


def test_start_that_is_no_longer_wanted_removes_no_member() -> None:
    elsewhere = LeftMembersStage(owner="another")
    with pytest.raises(AbandonedError):
        elsewhere.prepare()
    assert elsewhere.removed == []
    over = LeftMembersStage()
    over.handle.move(HandleState.ENDED)
    over.prepare()
    assert [is_due for _, _, is_due in over.removed] == [False]


@pytest.mark.parametrize("key", ["consumer_override_client_id", "consumer_override_group_instance_id"])
def test_no_member_is_removed_when_the_client_id_is_not_unique_to_the_task(key: str) -> None:
    scene = LeftMembersStage(**{key: "mine"})
    scene.prepare()
    assert scene.removed == []


def test_member_left_by_a_start_without_a_successor_is_removed() -> None:
    scene = LeftMembersStage()
    spec = task_spec(scene.settings, scene.snapshot, scene.handle)
    scene.fence.lock_out(spec)
    assert scene.removed == [("connect-out", "connector-consumer-out-1", True)]


def test_task_with_an_unresolvable_reference_fails_before_members_are_removed() -> None:
    scene = LeftMembersStage(consumer_override_sasl_password="${file:/secrets:password}")
    with pytest.raises(ConfigError, match=r"consumer\.override\.sasl\.password: \$\{file:/secrets:password\} refers"):
        scene.prepare()
    assert scene.removed == []
