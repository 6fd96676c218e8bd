"""Epochs on three brokers with `min.insync.replicas=2`, whose leaders move, die and stand still.

A worker writes one topic into files and, by SQL, into another topic. After each fault both have to go on by themselves,
and in the end each record is in files and in the other topic once, in the order of its partition.
"""

import functools
import glob
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from enum import Enum
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.group_admin import GroupAdmin
from fencepost.testing import eventually
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Verdict, judge
from support.brokers import COORDINATORS, IN_SYNC, Brokers
from support.chaos.evidence import Evidence
from support.chaos.processes import standing_still
from support.feed import Feed
from support.long_form import IS_LONG
from support.worker import Worker

PARTITIONS, REPLICAS = 3, 3
BLOCK, PER_S = 20, 100
WITHIN_S = 240
STILL_S = 6.0  # longer than a broker may be silent before others lead
LAGS_S = 8.0
QUICK = {IN_SYNC: "2", "broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
SETTINGS = {f"{kind}.storage.replication.factor": str(REPLICAS) for kind in ("config", "offset", "status")}


class BrokerFault(Enum):
    """What happens, and to whom."""

    MOVE_LEADERS = ("leaders move", "the input")
    MOVE_COORDINATORS = ("leaders move", "groups and transactions")
    KILL_LEADER = ("a leader is killed behind a record", "the input")
    KILL_AND_LAG = ("a leader is killed, and its successor shows no record", "the input")
    STOP_LEADER = ("a leader stands still and wakes up", "the input")


def plan(seed: int) -> list[BrokerFault]:
    """Return what happens, one after the other: ten times everything where the campaign is long, else one of it."""
    faults = list(BrokerFault) * 10
    random.Random(seed).shuffle(faults)
    return faults if IS_LONG else faults[:1]


class Campaign:
    """Three brokers, a worker with two connectors, and what feeds them."""

    def __init__(self, brokers: Brokers, directory: Path, topic: str, seed: int, evidence: Evidence) -> None:
        self.brokers = brokers
        self.servers = brokers.bootstrap_servers
        self.topic, self.target = topic, f"{topic}-out"
        self.out = directory / "out"
        self.chosen = random.Random(seed)
        self.evidence = evidence
        self.admin = Admin({"bootstrap.servers": self.servers})
        for name, partitions in ((self.topic, PARTITIONS), (self.target, 1)):
            self.admin.topics.create(name, partitions=partitions, replication=REPLICAS)
        self.producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True, "linger.ms": 1})
        self.group = f"brokers-{seed}"
        self.worker = Worker(self.servers, directory, {"slots.max": "1", **SETTINGS}, group=self.group)
        self.groups = GroupAdmin({"bootstrap.servers": self.servers}, timeout_s=10)
        self.feed: Feed | None = None

    def write(self, numbers: range) -> bool:
        errors: list[object] = []
        for n in numbers:
            value = json.dumps({"n": n}).encode()
            on_delivery = functools.partial(lambda error, _: errors.append(error) if error else None)
            self.producer.produce(self.topic, value, partition=n % PARTITIONS, on_delivery=on_delivery)
        assert self.producer.flush(WITHIN_S) == 0
        assert not errors, errors
        return True

    def begin(self) -> None:
        assert self.worker.create("files", self._files()).status_code == 201
        assert self.worker.create("sql", self._sql()).status_code == 201
        self.feed = Feed(self.write, block=BLOCK, per_s=PER_S)

    def shown(self) -> list[int]:
        """Return the numbers that are in files, file by file."""
        return [n for path in sorted(glob.glob(f"{self.out}/*.json")) for n in _numbers(path)]

    def written(self, reader: CommittedReader) -> list[int]:
        return [json.loads(each.value or b"")["n"] for each in reader.seen()]

    def recover(self, reader: CommittedReader) -> float:
        """Return how long it takes until records that are written from now on are in files, and in the other topic."""
        assert self.feed is not None
        began_s, wanted = time.monotonic(), self.feed.sent + 2 * BLOCK

        def is_there() -> bool:
            assert self.feed is not None
            if self.feed.sent < wanted:
                return False
            last = set(range(wanted - PARTITIONS + 1, wanted + 1))
            return last <= set(self.shown()) and last <= set(self.written(reader))

        try:
            eventually(is_there, within_s=WITHIN_S)
        except AssertionError:
            self._tell(wanted, reader)
            raise
        return time.monotonic() - began_s

    def _tell(self, wanted: int, reader: CommittedReader) -> None:
        """Print who stands still."""
        assert self.feed is not None
        print(f"{wanted} wanted, {self.feed.sent} sent, up to {max(self.shown())} in files", end=", ")
        print(f"up to {max(self.written(reader))} in the topic")
        for name in ("files", "sql"):
            print(name, self.worker.status(name))
        print(*self.worker.newest_log_text().splitlines()[-60:], sep="\n", flush=True)

    def carry_out(self, fault: BrokerFault, reader: CommittedReader) -> None:
        acts: dict[BrokerFault, Callable[[CommittedReader], float]] = {
            BrokerFault.MOVE_LEADERS: self._move_leaders,
            BrokerFault.MOVE_COORDINATORS: self._move_coordinators,
            BrokerFault.KILL_LEADER: self._kill_leader,
            BrokerFault.KILL_AND_LAG: self._kill_and_lag,
            BrokerFault.STOP_LEADER: self._stop_leader,
        }
        took_s = acts[fault](reader)
        what, meets = fault.value
        print(f"{what}, {meets}: {took_s:.1f} s", flush=True)
        self.evidence.fault(what, meets, None, took_s)

    def _move_leaders(self, reader: CommittedReader) -> float:
        for partition in range(PARTITIONS):
            self.brokers.lead(self.chosen.choice(self._others(partition)), self.topic, partition)
        return self.recover(reader)

    def _move_coordinators(self, reader: CommittedReader) -> float:
        """A client that has asked the coordinator finds the next one: the worker's own would end its tasks."""
        first = self.chosen.choice((1, 2, 3))
        for leader in (first, first % 3 + 1):  # one of them was not the group's coordinator
            self._await_worker()
            for internal in COORDINATORS:
                self.brokers.lead(leader, internal)
        self._await_worker()
        return self.recover(reader)

    def _await_worker(self) -> None:
        eventually(lambda: self.groups.describe(self.group).members, within_s=WITHIN_S)

    def _kill_leader(self, reader: CommittedReader) -> float:
        victim = self._leader()
        self.brokers.kill(victim)
        took_s = self.recover(reader)
        self.brokers.start(victim)
        self.recover(reader)
        return took_s

    def _kill_and_lag(self, reader: CommittedReader) -> float:
        """The record is committed, and nobody sees it before all three replicas are in sync again."""
        assert not self.admin.configs.alter({self.topic: {IN_SYNC: str(REPLICAS)}})
        victim = self._leader()
        self.brokers.kill(victim)
        time.sleep(LAGS_S)  # what waits for the record does so for longer than it takes others for lost
        self.brokers.start(victim)
        took_s = self.recover(reader)
        assert not self.admin.configs.alter({self.topic: {IN_SYNC: None}})
        return took_s

    def _stop_leader(self, reader: CommittedReader) -> float:
        """It has not heard that it was deposed when it wakes up."""
        victim = self._leader()
        with standing_still(psutil.Process(self.brokers.pid(victim))):
            time.sleep(STILL_S)
        return self.recover(reader)

    def _leader(self) -> int:
        return self.brokers.leader_of(self.topic, self.chosen.randrange(PARTITIONS))

    def _others(self, partition: int) -> list[int]:
        leader = self.brokers.leader_of(self.topic, partition)
        return [each for each in (1, 2, 3) if each != leader]

    def verdicts(self, reader: CommittedReader) -> dict[str, Verdict]:
        assert self.feed is not None
        sent = self.feed.stop()
        self.evidence.records = sent
        everything = set(range(1, sent + 1))
        eventually(lambda: everything <= set(self.shown()), within_s=WITHIN_S)
        eventually(lambda: everything <= set(self.written(reader)), within_s=WITHIN_S)
        expected = {p: [n for n in range(1, sent + 1) if n % PARTITIONS == p] for p in range(PARTITIONS)}
        afterwards = CommittedReader(self.servers, [self.target]).read_all(WITHIN_S)
        found = {
            "files": self.shown(),
            "topic, watched": self.written(reader),
            "topic, read afterwards": [json.loads(each.value or b"")["n"] for each in afterwards],
        }
        return {name: judge(expected, [(n % PARTITIONS, n) for n in numbers]) for name, numbers in found.items()}

    def _files(self) -> dict[str, str]:
        return {
            "connector.class": "fencepost.connector.files_sink.FilesSink",
            "path": str(self.out),
            "format": "json",
            **self._shared(),
        }

    def _sql(self) -> dict[str, str]:
        return {
            "connector.class": "fencepost.connector.topic_sql.TopicSql",
            "output.topic": self.target,
            "transforms.sql": "SELECT value.n FROM records",
            **self._shared(),
        }

    def _shared(self) -> dict[str, str]:
        return {
            "topics": self.topic,
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "value.schema": "n INT",
            "epoch.interval.ms": "300",
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.heartbeat.interval.ms": "500",
        }


def _numbers(path: str) -> list[int]:
    status = Path(path).stat()
    return _lines(path, (status.st_ino, status.st_size, status.st_mtime_ns))


@functools.cache
def _lines(path: str, identity: tuple[int, ...]) -> list[int]:
    """Return the numbers of a file; one that has not changed is not read again."""
    return [json.loads(line)["n"] for line in Path(path).read_text().splitlines()]


@pytest.fixture
def campaign(tmp_path: Path, topic_name: str, seed: int) -> Iterator[Campaign]:
    evidence = Evidence("brokers", seed)
    with Brokers(QUICK) as brokers:
        made = Campaign(brokers, tmp_path, topic_name, seed, evidence)
        with closing(made.groups), closing(made.producer), made.worker:
            yield made
    evidence.close()


@pytest.mark.chaos
@pytest.mark.timeout(600 + 120 * (50 if IS_LONG else 2))
def test_no_fault_of_a_broker_loses_or_doubles_a_record_of_files_and_queries(
    campaign: Campaign, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with capfd.disabled(), CommittedReader(campaign.servers, [campaign.target]) as reader:
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        campaign.begin()
        campaign.recover(reader)
        for fault in plan(seed):
            campaign.carry_out(fault, reader)
        verdicts = campaign.verdicts(reader)
        print(f"{campaign.evidence.records} records")
    unclean = {name: str(verdict) for name, verdict in verdicts.items() if not verdict.is_clean}
    campaign.evidence.verdict = "; ".join(unclean) or "clean"
    assert not unclean, unclean
    for name in ("files", "sql"):
        assert campaign.worker.task_states(name) == ["RUNNING"]
