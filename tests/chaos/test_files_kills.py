"""A worker with a files sink is killed at any moment, under load: every record is in one file, once, in order.

So it is when it stands still until another worker has taken over, and wakes up while that one writes. What fits no
column is in the dead letters, at least once.
"""

import functools
import glob
import itertools
import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, judge
from support.chaos.processes import standing_still
from support.feed import Feed
from support.long_form import IS_LONG
from support.worker import Worker

ROUNDS = 25 if IS_LONG else 1
PARTITIONS = 4
PER_S = 400
SETTINGS = {"slots.max": "1", "scheduled.rebalance.max.delay.ms": "0"}
TRANSACTION = 20  # records; each fifth is aborted
SLOW_S = 500  # for the 24 s of processor time of a first epoch: 12 s on two idle cores, 48 s at a load of 13
BROKEN = 7  # each so-manieth number stands in a value that is no JSON


@pytest.fixture
def feed(kafka: EmbeddedKafka, topic_name: str) -> Iterator[Feed]:
    """Writes in transactions, number n to partition n modulo their count; numbers of aborted ones are negative."""
    Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(
        topic_name, partitions=PARTITIONS, replication=1
    )
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic_name})
    producer.init_transactions(60)
    transactions = itertools.count(1)

    def write(numbers: range) -> bool:
        is_aborted = next(transactions) % 5 == 0
        producer.begin_transaction()
        for n in numbers:
            producer.produce(topic_name, value_of(-n if is_aborted else n), partition=n % PARTITIONS)
        if is_aborted:
            producer.flush(60)
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
        return not is_aborted

    running = Feed(write, block=TRANSACTION, per_s=PER_S)
    yield running
    running.stop()


def value_of(n: int) -> bytes:
    return json.dumps({"n": n}).encode() if n % BROKEN else f"{n} is no JSON".encode()


def number(letter: Observation) -> int:
    return int((letter.value or b"").partition(b" ")[0])


def fitting(last: int) -> list[int]:
    """Return the numbers up to `last` that are to be in files; all others are dead letters."""
    return [n for n in range(1, last + 1) if n % BROKEN]


def shown(out: Path) -> list[tuple[int, int]]:
    """Return (partition, n) of all lines, file by file, as a reader finds them."""
    return lines_of(listing(out))


def listing(out: Path) -> list[tuple[str, tuple[int, ...]]]:
    """Return the files that a reader finds, with what would change if one was written again."""
    return [(path, _identity(path)) for path in sorted(glob.glob(f"{out}/*.json"))]


def lines_of(files: list[tuple[str, tuple[int, ...]]]) -> list[tuple[int, int]]:
    return [line for path, identity in files for line in _lines(path, identity)]


@functools.cache
def _lines(path: str, identity: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the lines of a file; one that has not changed is not read again."""
    partition = int(path.rpartition("/")[2].split("+")[1])
    return [(partition, json.loads(line)["n"]) for line in Path(path).read_text().splitlines()]


def _identity(path: str) -> tuple[int, ...]:
    status = Path(path).stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def busy_of(workers: tuple[Worker, Worker]) -> Worker:
    """Return the worker that runs the task."""

    def runs() -> str:
        (task,) = workers[0].status("out")["tasks"]
        return str(task["worker_id"]) if task["state"] == "RUNNING" else ""

    port = eventually(runs, within_s=SLOW_S).rpartition(":")[2]
    return next(worker for worker in workers if str(worker.port) == port)


@pytest.mark.chaos
@pytest.mark.timeout(SLOW_S * (3 + 4 * ROUNDS))
def test_e17_no_kill_of_a_worker_loses_or_doubles_a_record_in_files(kafka, feed, topic_name, tmp_path, seed, capfd):
    drawn, out = random.Random(seed), tmp_path / "out"
    config = {
        "connector.class": "fencepost.connector.files_sink.FilesSink",
        "path": str(out),
        "format": "json",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "value.schema": "n INT",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic_name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "topics": topic_name,
        "epoch.interval.ms": "300",
        "epoch.partition.rows.min": "60",
        "epoch.partition.wait.max.ms": "5000",
        "consumer.override.session.timeout.ms": "6000",
        "consumer.override.heartbeat.interval.ms": "500",
    }
    seen: list[list[tuple[int, int]]] = []  # what each look has found that found something else than the one before
    looks = itertools.count()
    is_over = threading.Event()

    trouble: list[Exception] = []

    def watch() -> None:
        before: list[tuple[str, tuple[int, ...]]] = []
        try:
            while not is_over.wait(0.05):
                next(looks)
                if (now := listing(out)) != before:
                    seen.append(lines_of(now))
                    before = now
        except Exception as error:  # a file that is half there, for one
            trouble.append(error)

    watcher = threading.Thread(target=watch)
    with (
        capfd.disabled(),
        Worker(kafka.bootstrap_servers, tmp_path, SETTINGS, group=f"files-{seed}") as worker,
        Worker(kafka.bootstrap_servers, tmp_path, SETTINGS, group=f"files-{seed}") as other,
        CommittedReader(kafka.bootstrap_servers, [f"{topic_name}-dead"]) as reader_of_letters,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        assert worker.create("out", config).status_code == 201
        eventually(lambda: len(shown(out)) > 100, within_s=SLOW_S)
        watcher.start()
        try:
            faults = ["killed", "frozen"] * ROUNDS
            drawn.shuffle(faults)
            faults = faults if IS_LONG else faults[:1]
            for fault in faults:
                busy = busy_of((worker, other))
                is_over.wait(drawn.uniform(0.0, 1.5))
                if fault == "frozen":
                    # All of it stands still until its successor writes, and goes on where it stood.
                    with standing_still(psutil.Process(busy.process.pid)):
                        before = len(shown(out))
                        eventually(lambda before=before: len(shown(out)) > before + 50, within_s=SLOW_S)
                else:
                    busy.kill()
                    before = len(shown(out))
                    eventually(lambda before=before: len(shown(out)) > before + 50, within_s=SLOW_S)
                    busy.start()
                print(fault, flush=True)
                before = len(shown(out))
                eventually(lambda before=before: len(shown(out)) > before + 50, within_s=SLOW_S)
            sent = feed.stop()
            eventually(lambda: len(shown(out)) >= len(fitting(sent)), within_s=SLOW_S)
            broken = set(range(1, sent + 1)) - set(fitting(sent))
            eventually(lambda: {number(each) for each in reader_of_letters.seen()} == broken, within_s=SLOW_S)
        finally:
            is_over.set()
            watcher.join()
        worker.stop()
        other.stop()
    assert not trouble, trouble
    assert next(looks) > 20
    assert len(seen) > 2
    found = shown(out)
    expected = {p: [n for n in fitting(sent) if n % PARTITIONS == p] for p in range(PARTITIONS)}
    verdict = judge(expected, found)
    assert verdict.is_clean, str(verdict)
    for listed in seen:
        assert len(listed) == len({n for _, n in listed}), "a reader has seen a record twice"
    lengths = [len(listed) for listed in seen]
    assert lengths == sorted(lengths), "a reader has seen records go"
