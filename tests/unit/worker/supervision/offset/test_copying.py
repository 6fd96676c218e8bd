"""The worker's end of the copies of offsets."""

from typing import Any

import pytest

from fencepost.storage.change import TaskId
from fencepost.storage.offset_copies import OffsetCopy
from fencepost.worker.channel import RefusedError
from fencepost.worker.supervision.offset import OffsetCopying
from fencepost.worker.supervision.task.handle import HandleState, StartIdentity, TaskHandle

TASK = TaskId("c", 0)
THEIRS = b'["c", {"p": "a"}]'


class Topic:
    """The worker's offsets topic, which knows partition a by another spelling than ours."""

    def __init__(self) -> None:
        self.written: list[tuple[Any, ...]] = []

    def shared_key(self, connector: str, partition: Any) -> bytes:
        return THEIRS if (connector, partition) == ("c", {"p": "a"}) else b"ours"

    def write(self, copies: Any, timeout_s: float) -> None:
        self.written += [tuple(one) for one in copies]


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.fixture
def handle() -> TaskHandle:
    return TaskHandle(StartIdentity(TASK, 7, "newest"), "STARTED", HandleState.HOSTED)


@pytest.fixture
def copying(topic: Topic, handle: TaskHandle) -> OffsetCopying:
    fakes: Any = topic
    return OffsetCopying(fakes, fakes, lambda task: [handle] if handle.is_live and task == TASK else [])


def body(incarnation: str, *copies: OffsetCopy) -> dict[str, Any]:
    return {"connector": "c", "task": 0, "incarnation": incarnation, "copies": [one.to_json() for one in copies]}


def test_copied_offsets_keep_their_time_and_get_the_keys_of_the_workers_topic(
    copying: OffsetCopying, topic: Topic
) -> None:
    copies = [OffsetCopy(b'["c",{"p":"a"}]', None, 5), OffsetCopy(b'["c",{"p":"b"}]', b'{"n":1}', 6)]
    assert copying.handle(body("newest", *copies)) == {}
    assert topic.written == [(THEIRS, None, 5), (b"ours", b'{"n":1}', 6)]


def test_stopping_task_still_copies_the_offsets_that_it_commits(
    copying: OffsetCopying, topic: Topic, handle: TaskHandle
) -> None:
    handle.state = HandleState.STOPPING
    copying.copy(TASK, "newest", [OffsetCopy(b'["c",{"p":"b"}]', b"{}", 1)])
    assert topic.written


@pytest.mark.parametrize(("incarnation", "state"), [("older", HandleState.HOSTED), ("newest", HandleState.ENDED)])
def test_e7_superseded_start_copies_nothing(
    copying: OffsetCopying, topic: Topic, handle: TaskHandle, incarnation: str, state: HandleState
) -> None:
    handle.state = state
    with pytest.raises(RefusedError, match="a newer start of task c-0"):
        copying.handle(body(incarnation, OffsetCopy(b'["c",{"p":"b"}]', b"{}", 1)))
    assert topic.written == []
