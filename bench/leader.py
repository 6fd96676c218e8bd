"""`python -m bench.leader`: what a leader of many tasks does, without a broker: its topic is in memory.

The figures of docs/explanation/scale.md ("A leader of 100,000 tasks") are from here.
"""

import gc
import logging
import time
from collections.abc import Callable, Collection, Iterator
from typing import Annotated, Any, cast

import typer

from fencepost.cluster import leader as leader_module
from fencepost.cluster.assignment import Member
from fencepost.cluster.balance import LostTasks, Roster
from fencepost.cluster.command import PutConnector, PutTaskConfigs, Reassign, RemoveConnector
from fencepost.cluster.leader import CommandQueue, Leader
from fencepost.cluster.left_open import LeftOpen, Settled
from fencepost.cluster.running import Departures
from fencepost.kafka.group.member import Term
from fencepost.storage import records
from fencepost.storage.change import Change, TaskId
from fencepost.storage.config_topic import ConfigTopic
from fencepost.storage.fold import apply
from fencepost.storage.snapshot import ClusterSnapshot, SnapshotBuilder

_WAIT_S = 600.0


class Topic:
    """The leader's writer and reader: what is committed is folded, and counted."""

    topic = "configs"
    is_struck = False

    def __init__(self) -> None:
        self.builder = SnapshotBuilder()
        self.log: list[records.Encoded] = []
        self.snapshot: ClusterSnapshot = self.builder.freeze()
        self.bytes, self.records = 0, 0
        self._sent: list[records.Encoded] = []

    def put(self, encoded: Collection[records.Encoded]) -> list[Change]:
        found = [c for key, value in encoded for c in apply(self.builder, self.builder.offset, key, value)]
        self.log += encoded
        self.snapshot = self.builder.freeze()
        return found

    def read_to_end(self, timeout_s: float) -> ClusterSnapshot:
        return self.snapshot

    def read_past(self, offset: int, timeout_s: float) -> ClusterSnapshot:
        return self.snapshot

    def open(self, *, topic: str) -> None: ...

    def close(self) -> None:
        self._sent.clear()

    def send(self, topic: str, value: bytes | None, *, key: bytes, **_: Any) -> None:
        self._sent.append((key, value))

    def commit(self, **_: Any) -> None:
        self.bytes += sum(len(key) + len(value or b"") for key, value in self._sent)
        self.records += len(self._sent)
        self.put(list(self._sent))
        self._sent.clear()


class Ended:
    """Nothing is left open by a lost worker."""

    def end(self, snapshot: ClusterSnapshot, tasks: Collection[TaskId]) -> Settled:
        return Settled(tasks)


class Scene:
    """A leader of `tasks` tasks in connectors of two, which has decided nothing yet."""

    def __init__(self, tasks: int, workers: int) -> None:
        self.topic = Topic()
        self.urls = [f"http://worker-{number:03}.fencepost.svc:8083" for number in range(workers)]
        for url in self.urls:
            self.topic.put([records.worker_incarnation(url, f"{hash(url) & (2**128 - 1):032x}")])
        written: list[records.Encoded] = []
        for number in range(tasks // 2):
            written += _connector(f"connector-with-a-usual-name-{number:06}")
        self.topic.put(written)
        leader_module.TransactionalWriter = lambda *_: self.topic  # type: ignore[attr-defined, assignment]
        self.queue = CommandQueue()
        departures = Departures(5.0)
        lost = LostTasks(cast(LeftOpen, Ended()), departures.abandoned_tasks)
        self.roster: list[str] = []
        logging.getLogger("fencepost.cluster.balance").setLevel(logging.ERROR)  # which names them all
        topic, roster = cast(ConfigTopic, self.topic), Roster(lambda: list(self.roster))
        self.leader = Leader("g", topic, {}, roster, lost, self.queue)
        self.leader.start()
        self.leader.on_term(Term(1, "proof"))

    def step(self, name: str, work: Callable[[], object]) -> None:
        """Measure the processor time of what the leader does, and count what it writes."""
        gc.collect()  # garbage of the step before is not counted
        bytes_, count, began = self.topic.bytes, self.topic.records, time.process_time()
        work()
        taken = time.process_time() - began
        written, size = self.topic.records - count, self.topic.bytes - bytes_
        typer.echo(f"{name:38} {taken:7.3f} s {written:8,} records {size / 1000:10,.1f} kB")

    def decide(self) -> None:
        members = tuple(Member(url, self.topic.snapshot.incarnations[url]) for url in self.urls)
        Reassign(members).decide(self.topic.snapshot)

    def look(self) -> None:
        self.leader.reassign(_WAIT_S)

    def rest(self, for_s: float) -> None:
        began, cpu = time.monotonic(), time.process_time()
        time.sleep(for_s)
        share = (time.process_time() - cpu) / (time.monotonic() - began)
        typer.echo(f"{'at rest':38} {share * 100:7.2f} % of a core")


def _connector(name: str) -> Iterator[records.Encoded]:
    yield records.connector_config(name, {"connector.class": "FilesSource", "name": name})
    for number in range(2):
        yield records.task_config(TaskId(name, number), {"task": str(number)})
    yield records.tasks_commit(name, 2)
    yield records.task_count(name, 2)


def main(
    tasks: Annotated[int, typer.Option()] = 100_000,
    workers: Annotated[int, typer.Option()] = 500,
    rest_s: Annotated[float, typer.Option(help="How long the leader is watched at rest.")] = 20.0,
) -> None:
    """Print the processor time of each step, and what it writes. Folding the topic is part of it."""
    scene = Scene(tasks, workers)
    leader, urls = scene.leader, scene.urls

    def all_but(count: int) -> Callable[[], None]:
        def look() -> None:
            scene.roster[:] = urls[count:]
            scene.look()

        return look

    scene.step("first assignment, decided only", scene.decide)
    scene.step("first assignment", all_but(0))
    scene.look()
    scene.rest(rest_s)
    scene.step("a worker is lost", all_but(1))
    scene.step("it is back", all_but(0))
    scene.step("10 workers are lost", all_but(10))
    scene.step("they are back", all_but(0))
    new = "connector-that-is-new"
    scene.step("a connector is created", lambda: leader.submit(PutConnector(new, {"name": new})).result(_WAIT_S))
    two = PutTaskConfigs(new, [{}, {}], is_exactly_once=True)
    scene.step("it gets two tasks", lambda: leader.submit(two).result(_WAIT_S))
    names = [f"connector-that-is-new-{number}" for number in range(100)]
    creations = [PutConnector(name, {"name": name}) for name in names]
    scene.step("100 are created at once", lambda: [f.result(_WAIT_S) for f in [leader.submit(c) for c in creations]])
    configs = [PutTaskConfigs(name, [{}, {}], is_exactly_once=True) for name in names]
    scene.step("they get two tasks each", lambda: [f.result(_WAIT_S) for f in [leader.submit(c) for c in configs]])
    scene.step("a connector is deleted", lambda: leader.submit(RemoveConnector(new)).result(_WAIT_S))
    scene.leader.stop()
    newest = dict(scene.topic.log)
    began = time.process_time()
    Topic().put(list(newest.items()))
    size = sum(len(key) + len(value or b"") for key, value in newest.items())
    typer.echo(f"{'a starting worker, topic compacted':38} {time.process_time() - began:7.3f} s {size / 1e6:19,.1f} MB")


if __name__ == "__main__":
    typer.run(main)
