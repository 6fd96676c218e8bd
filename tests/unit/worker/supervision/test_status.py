"""When a worker says again what another one has spoken over; the topic is made up."""

from collections.abc import Callable
from typing import Any, cast

from fencepost.storage.status_topic import State, Status, StatusTopic, Subject
from fencepost.worker.supervision.status import StatusBoard


class Topic:
    def __init__(self) -> None:
        self.put_states: list[tuple[State, int]] = []
        self.heard: Callable[[Subject, Status], None] = lambda subject, status: None

    def listen(self, heard: Callable[[Subject, Status], None]) -> None:
        self.heard = heard

    def put(self, subject: Subject, status: Status) -> None:
        self.put_states.append((status.state, status.generation))


class Worker:
    def __init__(self, generation: int) -> None:
        self.generation, self.owned = generation, True
        self.topic = Topic()
        self.board = StatusBoard(
            cast(StatusTopic, self.topic), "this:1", lambda: self.generation, lambda _: self.owned,
            tracks_topics=False, version_of=lambda name: "1",
        )  # fmt: skip
        self.board.connector("c", State.RUNNING)
        self.topic.put_states.clear()

    def hear(self, generation: int, worker: str = "other:1") -> list[tuple[State, int]]:
        """Return what it has said to what a worker said in a generation."""
        self.topic.put_states.clear()
        self.topic.heard("c", cast(Any, Status(State.STOPPED, worker, generation)))
        return list(self.topic.put_states)


def test_status_from_an_older_generation_is_corrected_each_time() -> None:
    worker = Worker(5)
    assert [worker.hear(generation) for generation in (4, 4, 5, 5)] == [[(State.RUNNING, 5)]] * 4


def test_status_from_a_newer_generation_is_corrected_once() -> None:
    """Else two that both take themselves for the owner would answer each other for ever."""
    worker = Worker(5)
    assert worker.hear(6) == [(State.RUNNING, 5)]
    assert [worker.hear(6), worker.hear(6)] == [[], []]
    assert worker.hear(7) == [(State.RUNNING, 5)]
    worker.generation = 7
    assert worker.hear(7) == [(State.RUNNING, 7)]


def test_owner_in_the_newer_generation_writes_the_last_status() -> None:
    worker = Worker(5)
    assert [worker.hear(6), worker.hear(6)] == [[(State.RUNNING, 5)], []]
    worker.topic.put_states.clear()
    worker.board.assigned()
    assert worker.topic.put_states == []
    worker.generation = 6
    worker.board.assigned()
    worker.board.assigned()
    assert worker.topic.put_states == [(State.RUNNING, 6)]


def test_former_owner_does_not_correct_the_status_of_the_new_owner() -> None:
    worker = Worker(5)
    assert [worker.hear(6), worker.hear(6)] == [[(State.RUNNING, 5)], []]
    worker.topic.put_states.clear()
    worker.generation, worker.owned = 6, False
    worker.board.assigned()
    worker.owned = True
    worker.board.assigned()
    assert worker.topic.put_states == []


def test_worker_corrects_neither_its_own_status_nor_statuses_of_foreign_tasks() -> None:
    worker = Worker(5)
    assert worker.hear(4, "this:1") == []
    worker.owned = False
    assert worker.hear(4) == []
    worker.owned = True
    assert worker.hear(4) == []
