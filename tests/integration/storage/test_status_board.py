"""Statuses of one connector or task by several workers on the real broker: the owner's is the last."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.log import LogReader
from fencepost.storage.change import TaskId
from fencepost.storage.status_topic import State, Status, StatusTopic, Subject
from fencepost.testing import eventually
from fencepost.worker.supervision.status import StatusBoard

TASK = TaskId("c", 0)


class Worker:
    """A worker's status topic and board; `owned` is assigned to it."""

    def __init__(self, name: str, conf: dict[str, Any], topic: str) -> None:
        self.owned: set[Subject] = set()
        self.generation = 1
        self.topic = StatusTopic(conf, conf, topic)
        self.board = StatusBoard(
            self.topic,
            name,
            lambda: self.generation,
            lambda s: s in self.owned,
            tracks_topics=False,
            version_of=lambda connector: "1",
        )
        self.topic.start(30)

    def status(self, subject: Subject) -> tuple[State, str] | None:
        said = self.topic.table.status(subject)
        return None if said is None else (said.state, said.worker_id)

    def read(self) -> None:
        assert self.topic.flush(60)
        self.topic.read_to_end(60)


@pytest.fixture
def workers(conf: dict[str, Any], admin: Admin, topic_name: str) -> Iterator[tuple[Worker, Worker]]:
    admin.topics.create(topic_name, partitions=5, replication=1, configs={"cleanup.policy": "compact"})
    both = Worker("owner:1", conf, topic_name), Worker("former:1", conf, topic_name)
    yield both
    for worker in both:
        worker.topic.stop()


@pytest.mark.parametrize("late", [State.STOPPED, State.PAUSED, State.RUNNING, State.FAILED])
def test_owner_repeats_its_status_after_a_late_status_of_a_former_owner(workers: tuple[Worker, Worker], late: State):
    owner, former = workers
    owner.owned = {"c", TASK}
    owner.board.connector("c", State.RUNNING)
    owner.board.task(TASK, State.RUNNING)
    owner.read()
    former.generation = 2  # no generation tells who is late: it was moved there, and back
    former.board.connector("c", late)
    former.board.task(TASK, late)
    former.read()
    owner.generation = 3
    for reader in workers:
        for subject in ("c", TASK):
            eventually(lambda r=reader, s=subject: r.status(s) == (State.RUNNING, "owner:1"), within_s=60)
    owner.board.connector("c", State.PAUSED)
    owner.read()
    former.board.connector("c", late)
    former.read()
    eventually(lambda: former.status("c") == (State.PAUSED, "owner:1"), within_s=60)
    said = former.topic.table.status("c")
    assert isinstance(said, Status)
    assert said.generation == 3


def test_a_former_owner_does_not_repeat_its_statuses(
    workers: tuple[Worker, Worker], conf: dict[str, Any], topic_name: str
):
    owner, former = workers
    former.owned = {"c", TASK}
    former.board.connector("c", State.RUNNING)
    former.board.task(TASK, State.RUNNING)
    former.read()
    former.owned, owner.owned = {"c"}, {"c", TASK}
    former.board.connector("c", State.UNASSIGNED)  # it ends, and has not read yet whose the connector is
    former.read()
    owner.read()  # else it would say again what it says now
    owner.board.connector("c", State.PAUSED)
    owner.board.task(TASK, State.PAUSED)
    owner.read()
    former.read()  # has heard both
    former.read()  # and has written what it had to say of them
    owner.read()
    assert owner.status("c") == owner.status(TASK) == (State.PAUSED, "owner:1")
    written: list[str] = []
    reader = LogReader(conf, topic_name)
    reader.read_to_end(60, lambda record: written.append(orjson.loads(record.value or b"")["worker_id"]))
    reader.close()
    assert Counter(written) == {"former:1": 3, "owner:1": 2}
