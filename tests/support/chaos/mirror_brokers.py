"""Faults of the brokers at both ends of a mirror, three each with `min.insync.replicas=2`, while applications write."""

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

import psutil

from fencepost.kafka.admin.client import Admin
from support.brokers import COORDINATORS, IN_SYNC, Brokers
from support.chaos.evidence import Evidence
from support.chaos.mirror_chaos import mirror_config
from support.chaos.processes import standing_still
from support.cluster import Cluster
from support.mirror.two_clusters import MirrorVerdict, TwoClusters
from support.mirror.workload import Workload

NAME = "mirror"
TASKS = 2
_NODES = (1, 2, 3)
_LONGEST_S = 300.0  # for the busiest of machines; what it took is in the evidence
_STILL_S = 9.0  # longer than a broker may be silent before others lead
_LOOK_S = 0.1


class BrokerHurt(Enum):
    """What a fault does; it is undone afterwards."""

    MOVE_LEADERS = "leaders of the data move"
    MOVE_COORDINATORS = "coordinators move"
    KILL_LEADER = "SIGKILL of a leader, started again"
    STOP_LEADER = "SIGSTOP of a leader, replaced, SIGCONT"
    MISS_REPLICAS = "too few replicas in sync: nothing is committed to the logs, and then all is"


class End(Enum):
    """Which end of the mirror the brokers belong to."""

    SOURCE = "the source"
    TARGET = "the target"


@dataclass(frozen=True)
class BrokerFault:
    """One fault; `choice` (0 to 1) says which of its victims."""

    hurt: BrokerHurt
    end: End
    choice: float

    def __str__(self) -> str:
        return f"{self.hurt.value}, {self.end.value}"


def broker_plan(seed: int, count: int) -> list[BrokerFault]:
    """Return so many faults of both ends: each kind about as often as the others, in an order of chance."""
    drawn = random.Random(seed)
    kinds = [(hurt, end) for hurt in BrokerHurt for end in End]
    chosen: list[tuple[BrokerHurt, End]] = []
    while len(chosen) < count:
        drawn.shuffle(kinds)
        chosen += kinds
    return [BrokerFault(*kind, drawn.random()) for kind in chosen[:count]]


class MirrorBrokers:
    """A mirror of two workers, between two clusters of three brokers, and what is promised after each fault."""

    def __init__(
        self,
        brokers: Mapping[End, Brokers],
        clusters: TwoClusters,
        workload: Workload,
        workers: Cluster,
        evidence: Evidence,
        client: str,
    ) -> None:
        """`client` is what the mirror writes with."""
        self._brokers = brokers
        self._clusters = clusters
        self._workload = workload
        self._workers = workers
        self._evidence = evidence
        self._client = client

    def go_through(self, faults: Iterable[BrokerFault], transactions_per_s: float) -> None:
        """Create the mirror, carry out all while the workload feeds it, prove, and keep the evidence."""
        source = self._clusters.source.bootstrap_servers
        config = mirror_config(self._clusters, source, TASKS, self._client, replication=len(_NODES))
        try:
            with self._workload.feeding(transactions_per_s):
                answer = self._workers.workers[0].create(NAME, config)
                assert answer.status_code == 201, answer.text
                self._recover()
                for number, fault in enumerate(faults, 1):
                    self._suffer(number, fault)
            self._prove()
        finally:
            self._evidence.close()

    def _suffer(self, number: int, fault: BrokerFault) -> None:
        act: dict[BrokerHurt, Callable[[BrokerFault], float]] = {
            BrokerHurt.MOVE_LEADERS: self._move_leaders,
            BrokerHurt.MOVE_COORDINATORS: self._move_coordinators,
            BrokerHurt.KILL_LEADER: self._kill_leader,
            BrokerHurt.STOP_LEADER: self._stop_leader,
            BrokerHurt.MISS_REPLICAS: self._miss_replicas,
        }
        try:
            took_s = act[fault.hurt](fault)
        except AssertionError as error:
            raise AssertionError(f"fault {number}, {fault}: {error}") from error
        print(f"fault {number}: {fault}: new records after {took_s:.1f} s", flush=True)
        self._evidence.fault(fault.hurt.value, fault.end.value, None, took_s, client=self._client)

    def _prove(self) -> None:
        self._workload.write_everywhere()
        front = {place: number - 1 for place, number in self._workload.front().items()}
        self._clusters.await_mirrored(front, _LONGEST_S)
        verdicts: Mapping[str, MirrorVerdict] = self._clusters.verdicts(self._workload.given)
        self._evidence.records = verdicts["watched"].records.expected
        print(f"  input: {dict(self._workload.given.outcomes)}", flush=True)
        print("\n".join(f"  {how}: {verdict}" for how, verdict in verdicts.items()), flush=True)
        self._evidence.verdict = "anomaly"
        assert all(verdict.is_clean for verdict in verdicts.values())
        self._workers.workers[0].wait_for_tasks(NAME, *["RUNNING"] * TASKS)
        self._evidence.verdict = "clean"

    def _recover(self) -> float:
        """Wait until each partition has at the target what was written from now on. Returns how long that took."""
        began, front = time.monotonic(), self._workload.front()
        while behind := self._clusters.behind(front):
            self._workload.check()
            assert time.monotonic() - began < _LONGEST_S, f"not within {_LONGEST_S:g} s: {behind} of {front}"
            threading.Event().wait(_LOOK_S)
        return time.monotonic() - began

    # what is done

    def _move_leaders(self, fault: BrokerFault) -> float:
        brokers, first = self._brokers[fault.end], _node(fault.choice)
        for number, (topic, partition) in enumerate(self._places(fault.end)):
            brokers.lead((first + number) % len(_NODES) + 1, topic, partition)
        return self._recover()

    def _move_coordinators(self, fault: BrokerFault) -> float:
        for topic in COORDINATORS:
            self._brokers[fault.end].lead(_node(fault.choice), topic)
        return self._recover()

    def _kill_leader(self, fault: BrokerFault) -> float:
        brokers, victim = self._brokers[fault.end], self._leader(fault)
        brokers.kill(victim)
        took_s = self._recover()
        brokers.start(victim)
        self._recover()
        return took_s

    def _stop_leader(self, fault: BrokerFault) -> float:
        """Others lead meanwhile; the one that wakes up does not know it yet."""
        with standing_still(psutil.Process(self._brokers[fault.end].pid(self._leader(fault)))):
            threading.Event().wait(_STILL_S)
        return self._recover()

    def _miss_replicas(self, fault: BrokerFault) -> float:
        """Require all replicas while a broker is away: no new record is visible until it is back."""
        brokers, victim = self._brokers[fault.end], self._leader(fault)
        topics = sorted({topic for topic, _ in self._places(fault.end)})
        admin = Admin({"bootstrap.servers": brokers.bootstrap_servers})
        try:
            assert not admin.configs.alter({topic: {IN_SYNC: "3"} for topic in topics})
            brokers.kill(victim)
            threading.Event().wait(_STILL_S)
            brokers.start(victim)
            took_s = self._recover()
            assert not admin.configs.alter({topic: {IN_SYNC: None} for topic in topics})
            return took_s
        finally:
            admin.close()

    # to whom

    def _places(self, end: End) -> list[tuple[str, int]]:
        places = sorted(self._workload.front())
        remote = self._clusters.naming.remote
        return places if end is End.SOURCE else [(remote(topic), partition) for topic, partition in places]

    def _leader(self, fault: BrokerFault) -> int:
        places = self._places(fault.end)
        return self._brokers[fault.end].leader_of(*places[int(fault.choice * len(places))])


def _node(choice: float) -> int:
    return _NODES[int(choice * len(_NODES))]
