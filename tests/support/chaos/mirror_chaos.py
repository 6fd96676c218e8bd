"""Hurts a mirror of several workers, and both of its clusters, while applications write to the source."""

import contextlib
import os
import signal
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import psutil

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin import Admin
from fencepost.kafka.memberless import read_stable
from fencepost.testing import eventually
from fencepost.testing.proxy import KafkaProxy
from support.chaos.evidence import Evidence
from support.chaos.gated_cluster import GatedCluster
from support.chaos.mirror_fault import Change, Hurt, MirrorFault
from support.chaos.processes import is_alive, peer_ports
from support.cluster import pause, ready, resume
from support.mirror.two_clusters import TwoClusters
from support.mirror.workload import NOT_MIRRORED, Workload, Written
from support.worker import Worker

T = TypeVar("T")

NAME = "mirror"
RECOVERED_S = 240.0  # a limit for the busiest of machines; what it took is in the summary
_LONGEST_CUT_S = 2.0
_LOOK_S = 0.05
_TASKS = (1, 4)


class MirrorChaos:
    """One flow of the sink type, with transactions, and what is promised after each fault: every partition of the
    source that is written to goes on at the target."""

    def __init__(
        self, clusters: TwoClusters, workload: Workload, gated: GatedCluster, source: KafkaProxy, evidence: Evidence
    ) -> None:
        """`source` is how the mirror sees the source's broker."""
        self._clusters = clusters
        self._workload = workload
        self._gated = gated
        self._source = source
        self._evidence = evidence
        self._tasks = max(_TASKS)
        self._grown = 0
        self.recoveries: dict[Hurt, list[float]] = defaultdict(list)

    def config(self) -> dict[str, str]:
        """Return the connector's."""
        naming = self._clusters.naming
        return {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSinkConnector",
            "transaction.producer": "true",
            "tasks.max": str(self._tasks),
            # A transaction is open at nearly any moment, and what nobody ends stays open: readers would wait behind it.
            "transaction.boundary": "interval",
            "transaction.boundary.interval.ms": "200",
            "producer.override.transaction.timeout.ms": "600000",
            "topics": f"{naming.prefix}.*",
            "config.properties.exclude": NOT_MIRRORED,
            "source.cluster.alias": naming.source,
            "target.cluster.alias": naming.target,
            "source.cluster.bootstrap.servers": self._source.bootstrap_servers,
            "target.cluster.bootstrap.servers": self._clusters.target.bootstrap_servers,
            "source.consumer.isolation.level": "read_committed",
            "source.consumer.fetch.max.wait.ms": "50",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
            "sync.topic.acls.enabled": "false",
        }

    def start(self) -> None:
        """Create the connector, and wait until everything flows."""
        answer = self._gated.workers[0].create(NAME, self.config())
        assert answer.status_code == 201, answer.text
        self._recover()

    def run(self, faults: Iterable[MirrorFault]) -> None:
        for number, fault in enumerate(faults, 1):
            threading.Event().wait(fault.delay_s)
            began = time.monotonic()
            try:
                took_s = self._carry_out(fault)
            except AssertionError as error:
                self._gated.print_stacks()
                raise AssertionError(f"fault {number}, {fault}: {error}\n{self._said()}") from error
            self.recoveries[fault.hurt].append(took_s)
            phase = "any moment" if fault.change is None else fault.change.value
            self._evidence.fault(fault.hurt.value, phase, None, took_s)
            all_s = time.monotonic() - began
            print(f"fault {number}: {fault}: new records after {took_s:.1f} s; {all_s:.1f} s in all", flush=True)
        for hurt, found in self.recoveries.items():
            print(f"  {hurt.value}: n={len(found)}, p50 {statistics.median(found):.1f} s, max {max(found):.1f} s")

    def prove(self) -> None:
        """Wait until all that was written is at the target; print and check the verdicts and where the mirror stands.

        Nothing fed the source any more.
        """
        self._workload.write_everywhere()
        ends = {place: number - 1 for place, number in self._workload.front().items()}
        self._clusters.await_mirrored(ends, RECOVERED_S)
        verdicts = self._clusters.verdicts(self._workload.given)
        self._evidence.records = verdicts["watched"].records.expected
        print(f"  source: {dict(self._workload.given.outcomes)}", flush=True)
        print("\n".join(f"  {how}: {verdict}" for how, verdict in verdicts.items()), flush=True)
        self._evidence.verdict = "anomaly"
        assert all(verdict.is_clean for verdict in verdicts.values())
        eventually(self._stands_at_the_end, within_s=60)
        self._gated.workers[0].wait_for_tasks(NAME, *["RUNNING"] * self._tasks)
        failures = self._gated.failures()
        assert not failures, "\n".join(failures)
        self._evidence.verdict = "clean"

    def _stands_at_the_end(self) -> bool:
        """Whether the group of the target stands at the end of each partition of the source, and nothing is open."""
        admin = Admin({"bootstrap.servers": self._clusters.source.bootstrap_servers})
        places = [(t.name, n) for t in self._workload.topics for n in range(t.partitions)]
        ends = {place: end for place, end in admin.end_offsets(places, read_committed=True).items() if end}
        remote = self._clusters.naming.remote
        target = {"bootstrap.servers": self._clusters.target.bootstrap_servers}
        found = read_stable(target, f"connect-{NAME}", 30.0)
        stands = {(place.topic, place.partition): committed.offset for place, committed in found.items()}
        wanted = {(remote(topic), partition): end for (topic, partition), end in ends.items()}
        differing = {place: (stands.get(place), end) for place, end in wanted.items() if stands.get(place) != end}
        assert not differing, f"stands at, of: {differing}"
        return True

    # faults

    def _carry_out(self, fault: MirrorFault) -> float:
        if fault.hurt is not Hurt.STOP_WORKER:
            self._make(fault.change, self._gated.workers)
        act: dict[Hurt, Callable[[MirrorFault], float]] = {
            Hurt.KILL_SLOT: self._kill_slot,
            Hurt.STOP_SLOT: self._stop_slot,
            Hurt.KILL_WORKER: self._kill_worker,
            Hurt.STOP_WORKER: self._stop_worker,
            Hurt.KILL_SOURCE: partial(self._kill_broker, self._clusters.source),
            Hurt.KILL_TARGET: partial(self._kill_broker, self._clusters.target),
            Hurt.LOSE_SOURCE: self._lose_source,
            Hurt.LOSE_TARGET: self._lose_target,
        }
        return act[fault.hurt](fault)

    def _kill_slot(self, fault: MirrorFault) -> float:
        os.kill(self._slot(fault), signal.SIGKILL)
        return self._recover()

    def _stop_slot(self, fault: MirrorFault) -> float:
        victim = psutil.Process(self._slot(fault))
        victim.suspend()
        try:
            return self._recover()
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.resume()
            eventually(lambda: not is_alive(victim), within_s=RECOVERED_S)

    def _kill_worker(self, fault: MirrorFault) -> float:
        victim = self._victim(fault)
        victim.kill()
        try:
            return self._recover()
        finally:
            ready(victim)

    def _stop_worker(self, fault: MirrorFault) -> float:
        """The plan changes while the zombie sleeps: to fewer tasks, so that nobody takes the ids of some of its own."""
        if self._tasks == min(_TASKS):
            self._make(Change.TASKS, self._gated.workers)
            self._recover()
        victim = self._victim(fault)
        pause(victim)
        try:
            self._make(fault.change, [worker for worker in self._gated.workers if worker is not victim])
            return self._recover()
        finally:
            resume(victim)
            self._recover()

    def _kill_broker(self, broker: EmbeddedKafka, fault: MirrorFault) -> float:
        broker.kill()
        threading.Event().wait(fault.choice * _LONGEST_CUT_S)
        broker.start()
        return self._recover()

    def _lose_source(self, fault: MirrorFault) -> float:
        with self._cut(self._source):
            threading.Event().wait(fault.choice * _LONGEST_CUT_S)
        return self._recover()

    def _lose_target(self, fault: MirrorFault) -> float:
        with self._cut(self._gated.station(self._victim(fault)).broker):
            took_s = self._recover()
        self._recover()
        return took_s

    @contextlib.contextmanager
    def _cut(self, proxy: KafkaProxy) -> Iterator[None]:
        proxy.pause()
        try:
            yield
        finally:
            proxy.resume()

    def _slot(self, fault: MirrorFault) -> int:
        """A process that talks to the source, as every task does."""
        return _chosen(eventually(lambda: [p for w in self._gated.workers for p in self._mirroring(w)]), fault)

    def _victim(self, fault: MirrorFault) -> Worker:
        """A worker that has a task."""
        return _chosen(eventually(lambda: [w for w in self._gated.workers if self._mirroring(w)]), fault)

    def _mirroring(self, worker: Worker) -> list[int]:
        return sorted(pid for pid in worker.slots().values() if self._source.port in peer_ports(pid))

    # changes

    def _make(self, change: Change | None, via: Sequence[Worker]) -> None:
        if change is Change.TASKS:
            self._tasks = sum(_TASKS) - self._tasks
            eventually(partial(self._is_rescaled, via), within_s=RECOVERED_S)
        elif change is Change.TOPIC:
            self._grown += 1
            self._workload.add_topic(Written(f"{self._clusters.naming.prefix}new-{self._grown}", 1))
        elif change is Change.PARTITIONS:
            first = self._workload.topics[0]
            self._workload.add_partitions(first.name, first.partitions + 1)

    def _is_rescaled(self, via: Sequence[Worker]) -> bool:
        said = []
        for worker in via:
            answer = worker.rest.patch(f"/connectors/{NAME}/config", json={"tasks.max": str(self._tasks)})
            if answer.status_code == 200:
                return True
            said.append(answer.text)
        raise AssertionError(said)

    # recovery

    def _recover(self) -> float:
        """Wait until each partition has at the target what was written from now on. Returns how long that took."""
        began, front = time.monotonic(), self._workload.front()
        while behind := self._clusters.behind(front):
            self._workload.check()
            assert time.monotonic() - began < RECOVERED_S, f"not within {RECOVERED_S:g} s: {behind} of {front}"
            threading.Event().wait(_LOOK_S)
        return time.monotonic() - began

    def _said(self) -> str:
        return "\n".join([*self._gated.said_of_what_is_not_running(), *self._gated.failures()])


def _chosen(victims: Sequence[T], fault: MirrorFault) -> T:
    return victims[int(fault.choice * len(victims))]
