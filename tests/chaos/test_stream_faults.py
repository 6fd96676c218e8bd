"""A stream of two workers, hurt while its group rebalances: its output is the function of the committed input.

A third of the input's transactions come to nothing. Now and then an instance of an old program, with a producer for
each partition, does the same in the same group.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.testing.reader import CommittedReader
from fencepost.testing.verdict import Observation, Verdict, judge
from support.chaos.evidence import Evidence
from support.chaos.gated_cluster import IMPATIENT, GatedCluster
from support.chaos.gated_faults import RECOVERED_S, GatedFaults, Hurting
from support.chaos.load import PLUGIN_PATH
from support.chaos.processes import peer_ports
from support.chaos.stream_fault import StreamFault, StreamHurt, stream_plan
from support.long_form import IS_LONG
from support.mirror.log_copy import LogCopy, Place
from support.mirror.workload import Workload, Written
from support.quick import quick_kafka
from support.worker import Worker

_LOOK_S = 0.05
_TASKS = (2, 3)
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


class StreamChaos(GatedFaults):
    """One stream that numbers records, and what is promised after each fault: each input partition flows on."""

    name = "stream"

    def __init__(
        self, kafka: EmbeddedKafka, workload: Workload, gated: GatedCluster, target: str, evidence: Evidence
    ) -> None:
        super().__init__(gated, workload, evidence, max(_TASKS))
        self._kafka = kafka
        self._target = target
        self._watched = CommittedReader(kafka.bootstrap_servers, [target])
        self._looked_at = 0
        self._latest: dict[Place, int] = {}

    def config(self) -> dict[str, str]:
        return {
            "connector.class": "numbering_stream.NumberingStream",
            "tasks.max": str(self._tasks),
            "topics": ",".join(topic.name for topic in self._workload.topics),
            "target": self._target,
            **{f"{prefix}{kind}.converter": _BYTES for prefix in ("", "output.") for kind in ("key", "value")},
            "header.converter": _BYTES,
            "consumer.override.session.timeout.ms": "3000",
            "consumer.override.heartbeat.interval.ms": "300",
            "consumer.override.auto.offset.reset": "earliest",
            # A transaction is open at nearly any moment, and what nobody ends stays open: its partitions would stand.
            "transaction.boundary": "interval",
            "transaction.boundary.interval.ms": "200",
            "producer.override.transaction.timeout.ms": "600000",
        }

    def go_through(self, faults: Iterable[Hurting], transactions_per_s: float) -> None:
        with self._watched:
            super().go_through(faults, transactions_per_s)

    def verdicts(self) -> Mapping[str, Verdict]:
        self._await_front({place: number - 1 for place, number in self._workload.front().items()})
        expected = self._committed()
        self._evidence.records = sum(map(len, expected.values()))
        return {
            "watched": judge(expected, self._watched.catch_up(60.0), sighting=_sighting),
            "read afterwards": judge(expected, self._watched.read_all(), sighting=_sighting),
        }

    def _committed(self) -> Mapping[Place, list[int]]:
        """Return the numbers of what the log says is committed, by partition."""
        names = {topic.name for topic in self._workload.topics}
        with LogCopy(self._kafka.bootstrap_servers, lambda name: name in names) as copy:
            return {place: [found.number for found in log.values()] for place, log in copy.catch_up().items() if log}

    def stands_at_the_end(self) -> bool:
        admin = Admin({"bootstrap.servers": self._kafka.bootstrap_servers})
        places = [(topic.name, n) for topic in self._workload.topics for n in range(topic.partitions)]
        ends = {place: end for place, end in admin.offsets.ends(places, read_committed=True).items() if end}
        stands = self.gated.workers[0].sink_offsets(self.name)
        differing = {place: (stands.get(place), end) for place, end in ends.items() if stands.get(place) != end}
        assert not differing, f"stands at, of: {differing}"
        return True

    # faults

    def carry_out(self, fault: StreamFault) -> float:
        if fault.rebalances and fault.hurt is not StreamHurt.RESCALE:
            self._rescale()
        act: dict[StreamHurt, Callable[[StreamFault], float]] = {
            StreamHurt.KILL_SLOT: self.kill_slot,
            StreamHurt.STOP_SLOT: self.stop_slot,
            StreamHurt.KILL_WORKER: self.kill_worker,
            StreamHurt.STOP_WORKER: lambda fault: self.stop_worker(self.victim(fault)),
            StreamHurt.LOSE_BROKER: self.lose_broker,
            StreamHurt.KILL_BROKER: partial(self.kill_broker, self._kafka),
            StreamHurt.RESCALE: lambda _: self._rescale() or self.recover(),
            StreamHurt.KILL_OLD: self._kill_old,
            StreamHurt.STOP_OLD: self._stop_old,
        }
        return act[fault.hurt](fault)

    def _kill_old(self, fault: StreamFault) -> float:
        with self._old() as old:
            threading.Event().wait(fault.delay_s)
            old.kill()
            return self.recover()

    def _stop_old(self, fault: StreamFault) -> float:
        """Suspend an old instance. Its input fences it, so its transaction is never committed when it resumes."""
        with self._old() as old:
            threading.Event().wait(fault.delay_s)
            old.send_signal(signal.SIGSTOP)
            took_s = self.recover()
            old.send_signal(signal.SIGCONT)
            self.recover()
            return took_s

    @contextmanager
    def _old(self) -> Iterator["subprocess.Popen[str]"]:
        """An instance of the old style that shares the partitions with the stream's tasks."""
        topics = ",".join(topic.name for topic in self._workload.topics)
        arguments = [self._kafka.bootstrap_servers, f"connect-{self.name}", topics, self._target]
        with subprocess.Popen(
            [sys.executable, "-m", "support.chaos.old_stream", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        ) as old:
            try:
                assert old.stdout is not None
                assert select.select([old.stdout], [], [], RECOVERED_S)[0], "it has no partitions"
                assert old.stdout.readline() == "ready\n"
                self.recover()  # half and half
                yield old
            finally:
                old.kill()
        self.recover()

    def _rescale(self) -> None:
        self._tasks = sum(_TASKS) - self._tasks
        self.rescale(self.name, self._tasks, self.gated.workers)

    def busy(self, worker: Worker) -> list[int]:
        """A task talks to the broker."""
        port = self.gated.station(worker).broker.port
        return sorted(pid for pid in worker.slots().values() if port in peer_ports(pid))

    # recovery

    def recover(self) -> float:
        began = time.monotonic()
        self._await_front(self._workload.front())
        return time.monotonic() - began

    def _await_front(self, front: Mapping[Place, int]) -> None:
        began = time.monotonic()
        while behind := self._behind(front):
            self._workload.check()
            assert time.monotonic() - began < RECOVERED_S, f"not within {RECOVERED_S:g} s: {behind} of {front}"
            threading.Event().wait(_LOOK_S)

    def _behind(self, front: Mapping[Place, int]) -> dict[Place, int]:
        new = self._watched.seen_of(self._target, self._looked_at)
        self._looked_at += len(new)
        for place, number in map(_sighting, new):
            self._latest[place] = max(number, self._latest.get(place, -1))
        return {place: self._latest.get(place, -1) for place, n in front.items() if self._latest.get(place, -1) < n}


def _sighting(seen: Observation) -> tuple[Place, int]:
    """Return the input partition and the number of a record of the output."""
    assert seen.key is not None
    assert seen.value is not None
    topic, partition = seen.key.decode().rsplit("-", 1)
    return (topic, int(partition)), int(seen.value)


QUOTAS = {
    StreamHurt.KILL_SLOT: 4,
    StreamHurt.STOP_SLOT: 1,
    StreamHurt.KILL_WORKER: 1,
    StreamHurt.STOP_WORKER: 1,
    StreamHurt.LOSE_BROKER: 1,
    StreamHurt.KILL_BROKER: 1,
    StreamHurt.RESCALE: 2,
    StreamHurt.KILL_OLD: 1,
    StreamHurt.STOP_OLD: 1,
}
LONG_QUOTAS = {
    StreamHurt.KILL_SLOT: 48,
    StreamHurt.STOP_SLOT: 16,
    StreamHurt.KILL_WORKER: 16,
    StreamHurt.STOP_WORKER: 24,
    StreamHurt.LOSE_BROKER: 24,
    StreamHurt.KILL_BROKER: 16,
    StreamHurt.RESCALE: 32,
    StreamHurt.KILL_OLD: 16,
    StreamHurt.STOP_OLD: 16,
}
TRANSACTIONS_PER_S = 20.0
SETTINGS = {**IMPATIENT, "plugin_path": PLUGIN_PATH}
TOPICS = (Written("s-one", 3), Written("s-other", 1))
TARGET = "numbered"


@pytest.mark.chaos
@pytest.mark.timeout(5400 if IS_LONG else 1800)
def test_every_fault_of_a_stream_leaves_the_function_of_the_committed_input(tmp_path, seed, capfd):
    group, evidence = f"chaos-stream-{seed}", Evidence("stream", seed)
    with (
        capfd.disabled(),
        quick_kafka(properties={"group.min.session.timeout.ms": "1000"}) as kafka,
        Workload(kafka.bootstrap_servers, seed, TOPICS) as workload,
        GatedCluster(kafka.bootstrap_servers, tmp_path, group, 2, **SETTINGS) as gated,
    ):
        print(f"\nFENCEPOST_CHAOS_SEED={seed}")
        Admin({"bootstrap.servers": kafka.bootstrap_servers}).topics.create(TARGET, partitions=3, replication=1)
        chaos = StreamChaos(kafka, workload, gated, TARGET, evidence)
        plan = stream_plan(seed, LONG_QUOTAS if IS_LONG else QUOTAS)
        chaos.go_through(plan if IS_LONG else plan[::2], TRANSACTIONS_PER_S)  # each seed has other ones
