"""Topics that empty themselves on three brokers, of which one goes without a word."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from fencepost.kafka.group.group_offsets import GroupOffsets
from fencepost.record import TopicPartition
from fencepost.testing import eventually
from support.brokers import Brokers
from support.chaos.retention_ledger import Ledger, Life
from support.cluster import LightWorker
from support.group_commit import put_at
from support.log_writer import LogWriter

TOPIC, GROUP, PARTITIONS, WITHIN_S = "carried", "emptying", 3, 120
PLACES = [(TOPIC, partition) for partition in range(PARTITIONS)]
SETTINGS = {
    "delete.committed.enabled": "true",
    "delete.committed.topics": TOPIC,
    "offset.flush.interval.ms": "200",
    **{f"{kind}.storage.replication.factor": "3" for kind in ("config", "offset", "status")},
}


class Stage:
    """A sink that runs, one that the test commits for, and the conditions for what is deleted."""

    def __init__(self, brokers: Brokers, worker: LightWorker, directory: Path) -> None:
        self.brokers = brokers
        self.writer = LogWriter(brokers.bootstrap_servers)
        self.writer.admin.topics.create(TOPIC, partitions=PARTITIONS, replication=3)
        self.life = Life(TOPIC, eventually(lambda: self.writer.admin.topics.get_all([TOPIC]))[TOPIC].id)
        self.ledger = Ledger({"bootstrap.servers": brokers.bootstrap_servers}, f"{GROUP}-configs")
        self.ledger.unbound.add("running")
        self.file = directory / "running.txt"
        for name, state in (("running", "RUNNING"), ("still", "STOPPED")):
            config = {"connector.class": "FileStreamSink", "file": str(directory / f"{name}.txt"), "topics": TOPIC}
            assert worker.create(name, config, initial_state=state).status_code == 201
        self.sent = 0

    def send(self, count: int) -> None:
        """Write so many records to each partition."""
        for partition in range(PARTITIONS):
            self.writer.send(TOPIC, [f"{partition}-{self.sent + n}" for n in range(count)], partition)
        self.sent += count

    def commit(self, offset: int) -> None:
        """Commit all partitions so far for the sink that does not run."""
        group = GroupOffsets({"bootstrap.servers": self.brokers.bootstrap_servers}, "connect-still")
        for partition in range(PARTITIONS):
            self.ledger.will_stand("connect-still", self.life, partition, offset)
        put_at(group, {TopicPartition(TOPIC, partition): offset for partition in range(PARTITIONS)}, WITHIN_S)

    def await_starts(self, offset: int) -> None:
        """Wait until every partition begins there, and hold the verdict."""
        eventually(lambda: self.starts() == [offset] * PARTITIONS, within_s=WITHIN_S)
        self.judge()

    def judge(self) -> None:
        starts = self.starts()
        self.ledger.judge()
        self.ledger.judge_start(self.life, starts)

    def starts(self) -> list[int]:
        found = self.writer.admin.offsets.starts(PLACES)
        return [found[place] for place in PLACES]

    def is_all_written(self) -> bool:
        wanted = {f"{partition}-{n}" for partition in range(PARTITIONS) for n in range(self.sent)}
        return set(self.file.read_text().splitlines()) == wanted


@contextmanager
def started(brokers: Brokers, directory: Path) -> Iterator[LightWorker]:
    """Start a worker, which makes its topics on brokers that have just come up."""
    worker = LightWorker(brokers.bootstrap_servers, directory, SETTINGS, group=GROUP)
    try:
        worker.start(within_s=WITHIN_S)
        yield worker
    finally:
        worker.stop(within_s=WITHIN_S)  # with a broker less


@pytest.mark.timeout(900)
def test_e9_deletion_continues_when_the_leader_of_a_partition_is_killed(tmp_path: Path) -> None:
    with Brokers() as brokers, started(brokers, tmp_path) as worker:
        stage = Stage(brokers, worker, tmp_path)
        stage.send(20)
        stage.commit(10)
        stage.await_starts(10)
        stage.brokers.kill(stage.brokers.leader_of(TOPIC))
        known = {0, 10}  # it may not have told the others yet that records are gone
        assert set(eventually(stage.starts, within_s=WITHIN_S)) <= known
        firsts = partial(stage.writer.admin.offsets.at_times, dict.fromkeys(PLACES, 0), read_committed=False)
        assert set(eventually(firsts, within_s=WITHIN_S).values()) <= known
        stage.send(20)
        stage.commit(30)
        stage.await_starts(30)
        stage.commit(40)
        stage.await_starts(40)
        eventually(stage.is_all_written, within_s=WITHIN_S)
        assert stage.ledger.count >= 3 * PARTITIONS
        stage.writer.close()
