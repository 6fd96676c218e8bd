"""The tasks of a sink are killed, frozen and divided anew under load: no record is missing, and none is skipped.

A FileStreamSink delivers at least once. So each partition's numbers come in order when only their first lines count:
who takes over begins where the group stands, which is never beyond what is in the file.
"""

import contextlib
import itertools
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from support.cluster import ZOMBIE_SETTINGS, WorkerOfRun
from support.feed import Feed
from support.long_form import IS_LONG

ROUNDS = 25 if IS_LONG else 1
PARTITIONS = 4
PER_S = 500


SIZE = 4_000  # of a line, so that a batch is larger than any buffer


class Written:
    """What stands in the file, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_to = 0
        self._firsts: dict[int, None] = {}
        self.lines = 0

    def firsts(self) -> list[int]:
        """Return the numbers in the order of their first lines; the half line of a killed task is one."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read_to)
            new = file.read()
        new = new[: new.rfind(b"\n") + 1]
        self._read_to += len(new)
        lines = [line for line in new.split(b"\n") if line]
        self.lines += len(lines)
        self._firsts |= dict.fromkeys(int(line.rstrip(b".")) for line in lines)
        return list(self._firsts)


@pytest.fixture
def feed(kafka: EmbeddedKafka, topic_name: str) -> Iterator[Feed]:
    """Writes number n to partition n modulo their count."""
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(
        topic_name, partitions=PARTITIONS, replication=1
    )
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5, "enable.idempotence": True})

    def write(numbers: range) -> bool:
        for number in numbers:
            producer.produce(topic_name, str(number).encode().ljust(SIZE, b"."), partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        return True

    running = Feed(write, block=PER_S // 20, per_s=PER_S)
    yield running
    running.stop()


@pytest.mark.chaos
@pytest.mark.timeout(300 * ROUNDS)
def test_no_fault_of_a_sinks_tasks_leaves_a_gap(kafka, feed, topic_name, tmp_path, seed, capfd):
    drawn, name, out = random.Random(seed), "out", tmp_path / "out.txt"
    config = {
        "connector.class": "FileStreamSink",
        "file": str(out),
        "topics": topic_name,
        "tasks.max": "2",
        "slot.dedicated": "true",
        "consumer.override.session.timeout.ms": "3000",
        "consumer.override.heartbeat.interval.ms": "300",
        "consumer.override.fetch.min.bytes": "400000",
    }
    written = Written(out)
    with (
        capfd.disabled(),
        WorkerOfRun(kafka.bootstrap_servers, tmp_path, ZOMBIE_SETTINGS, group=f"sink-{seed}") as worker,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        assert worker.create(name, config).status_code == 201
        worker.wait_for_tasks(name, "RUNNING", "RUNNING")

        def go_on() -> None:
            """Return when what is written from now on is in the file."""
            mark = feed.sent + PER_S // 2
            eventually(lambda: set(range(1, mark + 1)) <= set(written.firsts()), within_s=120, every_s=0.2)

        go_on()
        faults = ["kill", "stop", "rescale", "kill"] * ROUNDS
        drawn.shuffle(faults)
        counts = itertools.cycle([3, 2])
        count = 2
        for fault in faults:
            worker.wait_for_tasks(name, *["RUNNING"] * count, within_s=120)
            go_on()  # a start that has committed is not suspected of its slot's death
            victim = drawn.choice(eventually(lambda: sorted(worker.slots().values())))
            if fault == "rescale":
                count = next(counts)
                answer = worker.rest.patch(f"/connectors/{name}/config", json={"tasks.max": str(count)})
                assert answer.status_code == 200, answer.text
                worker.wait_for_tasks(name, *["RUNNING"] * count, within_s=120)
                go_on()
            elif fault == "kill":
                os.kill(victim, signal.SIGKILL)
                go_on()
            else:
                os.kill(victim, signal.SIGSTOP)
                try:
                    go_on()  # another has its partitions
                finally:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(victim, signal.SIGCONT)
                go_on()
            print(f"{fault}: {len(written.firsts())} numbers in the file", flush=True)
        last = feed.stop()
        eventually(lambda: set(range(1, last + 1)) <= set(written.firsts()), within_s=120, every_s=0.2)
        print(f"{last} numbers, {written.lines} lines")
        for partition in range(PARTITIONS):
            own = [number for number in written.firsts() if number % PARTITIONS == partition]
            assert own == [n for n in range(1, last + 1) if n % PARTITIONS == partition]
        worker.wait_for_tasks(name, *["RUNNING"] * count, within_s=120)
