"""Faults of a mirror of several workers, and of both of its clusters, while applications write to the source."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.group.memberless import read_stable
from support.chaos.evidence import Evidence
from support.chaos.gated_cluster import GatedCluster
from support.chaos.gated_faults import LONGEST_CUT_S, RECOVERED_S, GatedFaults, cut
from support.chaos.mirror_fault import Change, Hurt, MirrorFault
from support.chaos.processes import peer_ports
from support.mirror.two_clusters import MirrorVerdict, TwoClusters
from support.mirror.workload import NOT_MIRRORED, Workload, Written
from support.proxy import KafkaProxy
from support.worker import Worker

_LOOK_S = 0.05
_TASKS = (1, 4)


def mirror_config(
    clusters: TwoClusters, source: str, tasks: int, client: str, *, replication: int = 1
) -> dict[str, str]:
    """Return the config of a mirror of the sink type; `source` is where it reaches that cluster."""
    naming = clusters.naming
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSinkConnector",
        "transaction.producer": "true",
        "producer.client": client,
        "tasks.max": str(tasks),
        # A transaction is open at nearly any moment, and what nobody ends stays open: readers would wait behind it.
        "transaction.boundary": "interval",
        "transaction.boundary.interval.ms": "200",
        "producer.override.transaction.timeout.ms": "600000",
        "topics": f"{naming.prefix}.*",
        "config.properties.exclude": NOT_MIRRORED,
        "source.cluster.alias": naming.source,
        "target.cluster.alias": naming.target,
        "source.cluster.bootstrap.servers": source,
        "target.cluster.bootstrap.servers": clusters.target.bootstrap_servers,
        "source.consumer.isolation.level": "read_committed",
        "source.consumer.fetch.max.wait.ms": "50",
        "replication.factor": str(replication),
        "offset-syncs.topic.replication.factor": str(replication),
        "refresh.topics.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
    }


class MirrorChaos(GatedFaults):
    """One flow of the sink type, with transactions, and what is promised after each fault: every partition of the
    source that is written to goes on at the target."""

    name = "mirror"

    def __init__(
        self,
        clusters: TwoClusters,
        workload: Workload,
        gated: GatedCluster,
        source: KafkaProxy,
        evidence: Evidence,
        client: str,
    ) -> None:
        """`source` is how the mirror sees the source's broker; `client` is what it writes with."""
        super().__init__(gated, workload, evidence, max(_TASKS))
        self._clusters = clusters
        self._source = source
        self._grown = 0
        self._client = client
        self.about = {"client": client}

    def config(self) -> dict[str, str]:
        return mirror_config(self._clusters, self._source.bootstrap_servers, self._tasks, self._client)

    def verdicts(self) -> Mapping[str, MirrorVerdict]:
        self._clusters.await_mirrored(
            {place: number - 1 for place, number in self._workload.front().items()}, RECOVERED_S
        )
        verdicts = self._clusters.verdicts(self._workload.given)
        self._evidence.records = verdicts["watched"].records.expected
        return verdicts

    def stands_at_the_end(self) -> bool:
        """Say whether the target's group is at the end of each partition of the source: nothing is open."""
        admin = Admin({"bootstrap.servers": self._clusters.source.bootstrap_servers})
        places = [(t.name, n) for t in self._workload.topics for n in range(t.partitions)]
        ends = {place: end for place, end in admin.offsets.ends(places, read_committed=True).items() if end}
        remote = self._clusters.naming.remote
        target = {"bootstrap.servers": self._clusters.target.bootstrap_servers}
        found = read_stable(target, f"connect-{self.name}", 30.0)
        stands = {(place.topic, place.partition): committed.offset for place, committed in found.items()}
        wanted = {(remote(topic), partition): end for (topic, partition), end in ends.items()}
        differing = {place: (stands.get(place), end) for place, end in wanted.items() if stands.get(place) != end}
        assert not differing, f"stands at, of: {differing}"
        return True

    # faults

    def carry_out(self, fault: MirrorFault) -> float:
        if fault.hurt is not Hurt.STOP_WORKER:
            self._make(fault.change, self.gated.workers)
        act: dict[Hurt, Callable[[MirrorFault], float]] = {
            Hurt.KILL_SLOT: self.kill_slot,
            Hurt.STOP_SLOT: self.stop_slot,
            Hurt.KILL_WORKER: self.kill_worker,
            Hurt.STOP_WORKER: self._stop_worker,
            Hurt.KILL_SOURCE: partial(self.kill_broker, self._clusters.source),
            Hurt.KILL_TARGET: partial(self.kill_broker, self._clusters.target),
            Hurt.LOSE_SOURCE: self._lose_source,
            Hurt.LOSE_TARGET: self.lose_broker,
        }
        return act[fault.hurt](fault)

    def _stop_worker(self, fault: MirrorFault) -> float:
        """The plan changes while the zombie sleeps: to fewer tasks, so that nobody takes the ids of some of its own."""
        if self._tasks == min(_TASKS):
            self._make(Change.TASKS, self.gated.workers)
            self.recover()
        victim = self.victim(fault)
        others = [worker for worker in self.gated.workers if worker is not victim]
        return self.stop_worker(victim, partial(self._make, fault.change, others))

    def _lose_source(self, fault: MirrorFault) -> float:
        with cut(self._source):
            threading.Event().wait(fault.choice * LONGEST_CUT_S)
        return self.recover()

    def busy(self, worker: Worker) -> list[int]:
        """A task talks to the source."""
        return sorted(pid for pid in worker.slots().values() if self._source.port in peer_ports(pid))

    # changes

    def _make(self, change: Change | None, via: Sequence[Worker]) -> None:
        if change is Change.TASKS:
            self._tasks = sum(_TASKS) - self._tasks
            self.rescale(self.name, self._tasks, via)
        elif change is Change.TOPIC:
            self._grown += 1
            self._workload.add_topic(Written(f"{self._clusters.naming.prefix}new-{self._grown}", 1))
        elif change is Change.PARTITIONS:
            first = self._workload.topics[0]
            self._workload.add_partitions(first.name, first.partitions + 1)

    # recovery

    def recover(self) -> float:
        """Wait until each partition has at the target what was written from now on. Returns how long that took."""
        began, front = time.monotonic(), self._workload.front()
        while behind := self._clusters.behind(front):
            self._workload.check()
            assert time.monotonic() - began < RECOVERED_S, f"not within {RECOVERED_S:g} s: {behind} of {front}"
            threading.Event().wait(_LOOK_S)
        return time.monotonic() - began
