"""Faults that can be applied to workers of a gated cluster while their connector runs, and undone."""

import contextlib
import os
import signal
import statistics
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeVar

import psutil

from fencepost.embedded import EmbeddedKafka
from fencepost.testing import eventually
from support.chaos.evidence import Evidence
from support.chaos.gated_cluster import GatedCluster
from support.chaos.insistence import insisted
from support.chaos.processes import is_alive
from support.cluster import pause, ready, resume
from support.mirror.workload import Workload
from support.proxy import KafkaProxy
from support.worker import Worker

T = TypeVar("T")

RECOVERED_S = 240.0  # a limit for the busiest of machines; what it took is in the summary
LONGEST_CUT_S = 2.0


class Hurting(Protocol):
    """A fault: what is done, when, and to which (0 to 1) of its victims."""

    @property
    def hurt(self) -> Enum: ...

    @property
    def phase(self) -> str: ...

    @property
    def delay_s(self) -> float: ...

    @property
    def choice(self) -> float: ...


class Judged(Protocol):
    """The result of a verdict."""

    @property
    def is_clean(self) -> bool: ...


class GatedFaults(ABC):
    """Carries out faults on a connector that is fed all the time.

    Each is over when everything flows again, and all that was stopped has woken up.
    """

    name: ClassVar[str]
    about: Mapping[str, str] = MappingProxyType({})
    """What the evidence is told of each fault besides."""

    def __init__(self, gated: GatedCluster, workload: Workload, evidence: Evidence, tasks: int) -> None:
        self.gated = gated
        self._workload = workload
        self._evidence = evidence
        self._tasks = tasks
        self.recoveries: dict[Enum, list[float]] = defaultdict(list)

    @abstractmethod
    def config(self) -> dict[str, str]:
        """Return the connector's."""

    @abstractmethod
    def verdicts(self) -> Mapping[str, Judged]:
        """Wait until all that was written has come out; return how it did, by how it was looked at.

        Nothing feeds the topics any more. The evidence is told how many records there were.
        """

    @abstractmethod
    def stands_at_the_end(self) -> bool:
        """Say whether what is committed of the input is all of it."""

    @abstractmethod
    def recover(self) -> float:
        """Wait until what was written from now on has come out everywhere. Returns how long (s) that took."""

    @abstractmethod
    def busy(self, worker: Worker) -> list[int]:
        """Return the processes of its slots that have tasks of the connector."""

    @abstractmethod
    def carry_out(self, fault: Any) -> float:
        """Do and undo it. Returns how long (s) the recovery took."""

    def go_through(self, faults: Iterable[Hurting], transactions_per_s: float) -> None:
        """Create the connector, carry out all while the workload feeds it, prove, and keep the evidence."""
        try:
            with self._workload.feeding(transactions_per_s):
                insisted(lambda via: via.create(self.name, self.config()), self.gated.workers[0], RECOVERED_S)
                self.recover()
                self.run(faults)
            self.prove()
        finally:
            self._evidence.close()

    def prove(self) -> None:
        """Print and check the verdicts, the group's position, and that everything runs."""
        self._workload.write_everywhere()
        verdicts = self.verdicts()
        print(f"  input: {dict(self._workload.given.outcomes)}", flush=True)
        print("\n".join(f"  {how}: {verdict}" for how, verdict in verdicts.items()), flush=True)
        self._evidence.verdict = "anomaly"
        assert all(verdict.is_clean for verdict in verdicts.values())
        eventually(self.stands_at_the_end, within_s=RECOVERED_S)
        self.gated.workers[0].wait_for_tasks(self.name, *["RUNNING"] * self._tasks)
        failures = self.gated.failures()
        assert not failures, "\n".join(failures)
        self._evidence.verdict = "clean"

    def run(self, faults: Iterable[Hurting]) -> None:
        """Carry out all, one after the other."""
        for number, fault in enumerate(faults, 1):
            threading.Event().wait(fault.delay_s)
            began = time.monotonic()
            try:
                took_s = self.carry_out(fault)
            except AssertionError as error:
                self.gated.print_stacks()
                raise AssertionError(f"fault {number}, {fault}: {error}\n{self._said()}") from error
            self.recoveries[fault.hurt].append(took_s)
            self._evidence.fault(fault.hurt.value, fault.phase, None, took_s, **self.about)
            all_s = time.monotonic() - began
            print(f"fault {number}: {fault}: new records after {took_s:.1f} s; {all_s:.1f} s in all", flush=True)
        for hurt, found in self.recoveries.items():
            print(f"  {hurt.value}: n={len(found)}, p50 {statistics.median(found):.1f} s, max {max(found):.1f} s")

    # what is done

    def kill_slot(self, fault: Hurting) -> float:
        os.kill(self.slot(fault), signal.SIGKILL)
        return self.recover()

    def stop_slot(self, fault: Hurting) -> float:
        """Wait until it is given up, which kills it, too: others may have had all partitions.

        Another comes only where there is a task for it.
        """
        victim = psutil.Process(self.slot(fault))
        victim.suspend()
        try:
            took_s = self.recover()
            eventually(lambda: not is_alive(victim), within_s=RECOVERED_S)
            return took_s
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.resume()

    def kill_worker(self, fault: Hurting) -> float:
        victim = self.victim(fault)
        victim.kill()
        try:
            return self.recover()
        finally:
            ready(victim)

    def stop_worker(self, victim: Worker, meanwhile: Callable[[], None] = lambda: None) -> float:
        pause(victim)
        try:
            meanwhile()
            return self.recover()
        finally:
            resume(victim)
            self.recover()

    def kill_broker(self, broker: EmbeddedKafka, fault: Hurting) -> float:
        broker.kill()
        threading.Event().wait(fault.choice * LONGEST_CUT_S)
        broker.start()
        return self.recover()

    def lose_broker(self, fault: Hurting) -> float:
        """Cut a worker off until others do its work."""
        with cut(self.gated.station(self.victim(fault)).broker):
            took_s = self.recover()
        self.recover()
        return took_s

    # to whom

    def slot(self, fault: Hurting) -> int:
        workers = self.gated.workers
        return chosen(
            eventually(lambda: [pid for one in workers for pid in self.busy(one)], within_s=RECOVERED_S), fault
        )

    def victim(self, fault: Hurting) -> Worker:
        """A worker that has a task."""
        workers = self.gated.workers
        return chosen(eventually(lambda: [one for one in workers if self.busy(one)], within_s=RECOVERED_S), fault)

    def rescale(self, name: str, tasks: int, via: Sequence[Worker]) -> None:
        """Have the connector another number of tasks."""

        def is_told() -> bool:
            said = []
            for worker in via:
                answer = worker.rest.patch(f"/connectors/{name}/config", json={"tasks.max": str(tasks)})
                if answer.status_code == 200:
                    return True
                said.append(answer.text)
            raise AssertionError(said)

        eventually(is_told, within_s=RECOVERED_S)

    def _said(self) -> str:
        return "\n".join([*self.gated.said_of_what_is_not_running(), *self.gated.failures()])


@contextlib.contextmanager
def cut(proxy: KafkaProxy) -> Iterator[None]:
    """Let nothing through meanwhile."""
    proxy.pause()
    try:
        yield
    finally:
        proxy.resume()


def chosen(victims: Sequence[T], fault: Hurting) -> T:
    return victims[int(fault.choice * len(victims))]
