"""Faults of Java tasks: their hosts and slots are killed and paused while the tasks are held inside a call."""

import contextlib
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import TypeVar

import psutil

from fencepost.testing import eventually
from support.chaos.campaign import RECOVERY_S
from support.chaos.evidence import Evidence
from support.chaos.insistence import insisted
from support.chaos.java_targets import JavaTarget
from support.chaos.missed import Missed
from support.chaos.processes import is_alive, resume
from support.chaos.sink_gates import Life, SinkGates, Stop
from support.explained import explained
from support.host_processes import hosts, hosts_of_connectors
from support.worker import Worker

_T = TypeVar("_T")


class JavaFault(Enum):
    """A kind of fault, and its target."""

    KILL_HOST = "SIGKILL of the host"
    KILL_SLOT = "SIGKILL of the slot"
    ORPHAN = "SIGSTOP of the host, SIGKILL of its slot, replaced, SIGCONT"
    STOP_SLOT = "SIGSTOP of the slot, whose host goes on, replaced, SIGCONT"
    STOP_BOTH = "SIGSTOP of slot and host, replaced, SIGCONT"
    STOP_HOST = "SIGSTOP of the host, whose task is restarted"
    KILL_CONNECTORS = "SIGKILL of the host of connectors"
    KILL_WORKER = "SIGKILL of the worker with all below it, started again"


_BLOWS = (*(each for each in JavaFault if each not in (JavaFault.KILL_CONNECTORS, JavaFault.KILL_WORKER)),)
_ZOMBIES = {JavaFault.STOP_SLOT, JavaFault.STOP_BOTH}


@dataclass(frozen=True)
class Blow:
    """A fault that hits one target at a point of its calls."""

    target: int
    fault: JavaFault
    point: str


@dataclass(frozen=True)
class Round:
    """Blows that fall at once, one on each target; or a fault of the worker while all targets are held."""

    blows: tuple[Blow, ...]
    of_worker: JavaFault | None = None

    @property
    def faults(self) -> int:
        return 1 if self.of_worker else len(self.blows)


def plan(seed: int, rounds: int, points: Sequence[Sequence[str]]) -> list[Round]:
    """Return rounds in which each kind of fault and each point comes about as often as any other.

    The worker, and the host of its connectors, are each hit before one round of six; one of them comes before the
    first or the second round. Which one is the seed's choice.

    Args:
        points: those of each target.
    """
    drawn = random.Random(seed)
    faults = _endless(drawn, _BLOWS)
    of_target = [_endless(drawn, own) for own in points]
    found = []
    begin = drawn.choice((1, 2, 3, 4))
    for number in range(begin, begin + rounds):
        blows = tuple(Blow(target, next(faults), next(own)) for target, own in enumerate(of_target))
        of_worker = {2: JavaFault.KILL_WORKER, 4: JavaFault.KILL_CONNECTORS}.get(number % 6)
        found += [Round(blows)] if of_worker is None else [Round(blows, of_worker), Round(blows)]
    return found


def _endless(drawn: random.Random, these: Sequence[_T]) -> Iterator[_T]:
    """Yield all in random order, and again in another."""
    while True:
        yield from drawn.sample(these, len(these))


class _Victim:
    """A target that is held, and the processes of its task."""

    def __init__(self, target: JavaTarget, blow: Blow, stop: Stop) -> None:
        self.target, self.blow, self._stop = target, blow, stop
        self.took_s: float | None = None

    def await_held(self) -> None:
        self._stop.await_held()
        life = self._stop.held
        assert isinstance(life, Life)
        self.host = psutil.Process(life.pid)
        slot = self.host.parent()
        assert slot is not None
        self.slot = slot
        self.target.hold_still()

    def let_go(self) -> None:
        self._stop.released.set()

    def hit(self, worker: Worker, missed: Missed) -> None:
        """Strike it. One whose slot has stood still for longer than its lease, by chance, is replaced already."""
        try:
            self.was_there = is_alive(self.slot) and is_alive(self.host)
            if self.was_there:
                self._hit(worker)
        except psutil.NoSuchProcess:
            self.was_there = False
        if not self.was_there:
            missed.add(self.slot.pid, f"{self.target.name}, {self.blow.point}")

    def _hit(self, worker: Worker) -> None:
        match self.blow.fault:
            case JavaFault.KILL_HOST:
                self.host.kill()
            case JavaFault.KILL_SLOT:
                self.slot.kill()
            case JavaFault.ORPHAN:
                self.host.suspend()
                self.slot.kill()
            case JavaFault.STOP_SLOT:
                self.slot.suspend()
            case JavaFault.STOP_BOTH:
                self.slot.suspend()
                self.host.suspend()
            case JavaFault.STOP_HOST:
                self.host.suspend()
                insisted(
                    lambda via: via.rest.post(f"/connectors/{self.target.name}/tasks/0/restart"), worker, RECOVERY_S
                )

    def wake(self) -> None:
        """Let go on what was stopped, and at once whatever it was held in."""
        self.let_go()
        resume((self.host, self.slot))

    def is_gone(self) -> bool:
        """Say whether the host has ended, and the slot, if it was hit."""
        is_slot_hit = self.blow.fault not in (JavaFault.KILL_HOST, JavaFault.STOP_HOST)
        return not is_alive(self.host) and not (is_slot_hit and is_alive(self.slot))


class JavaFaults:
    """Carries out rounds: hold ▸ hit ▸ recover ▸ what was stopped wakes up and ends ▸ everything goes on."""

    def __init__(self, worker: Worker, targets: Sequence[JavaTarget], gates: SinkGates, evidence: Evidence) -> None:
        self._worker = worker
        self._targets = targets
        self._gates = gates
        self._evidence = evidence
        self._recoveries: dict[JavaFault, list[float]] = defaultdict(list)
        self._missed = Missed(worker, len(targets))

    def run(self, rounds: Sequence[Round]) -> None:
        began = time.monotonic()
        self.await_progress()
        print(f"everything goes on after {time.monotonic() - began:.1f} s", flush=True)
        for number, each in enumerate(rounds, 1):
            began = time.monotonic()
            self._carry_out(number, each)
            print(f"round {number} took {time.monotonic() - began:.1f} s", flush=True)
        struck = sum(map(len, self._recoveries.values()))
        print(f"{struck} faults")
        self._missed.check(struck)
        for fault, times in self._recoveries.items():
            median = statistics.median(times)
            print(f"  {fault.value}: n={len(times)}, recovery p50 {median:.1f} s, max {max(times):.1f} s")

    def await_progress(self) -> None:
        """Wait until each target has committed what is fed from now on."""
        for target in self._targets:
            target.set_mark()
        self._await_marks([])

    def _carry_out(self, number: int, each: Round) -> None:
        victims = [
            _Victim(self._targets[blow.target], blow, self._gates.hold(self._targets[blow.target].name, blow.point))
            for blow in each.blows
        ]
        for victim in victims:
            victim.await_held()
        if each.of_worker is not None:
            self._note(number, each.of_worker, "all held", "worker", self._hit_worker(each.of_worker, victims))
            return
        steps = [time.monotonic()]
        try:
            for victim in victims:
                victim.hit(self._worker, self._missed)
            self._recover(victims)
            steps.append(time.monotonic())
            zombies = [victim.slot for victim in victims if victim.blow.fault in _ZOMBIES and victim.was_there]
            gone = [slot for slot in zombies if not is_alive(slot)]
            assert not gone, f"zombies were gone before they could wake up: {gone}"
        finally:
            for victim in victims:
                victim.wake()
        eventually(lambda: all(victim.is_gone() for victim in victims) or _left(victims), within_s=RECOVERY_S)
        steps.append(time.monotonic())
        self.await_progress()
        steps.append(time.monotonic())
        took = ", ".join(f"{after - before:.1f} s" for before, after in pairwise(steps))
        print(f"round {number}: replaced, those that were hit gone, progress again after {took}")
        for victim in [each for each in victims if each.was_there]:
            assert victim.took_s is not None
            self._note(number, victim.blow.fault, victim.blow.point, victim.target.name, victim.took_s)

    def _hit_worker(self, fault: JavaFault, victims: Sequence[_Victim]) -> float:
        """Kill the worker, or its host of connectors, which no task notices; return how long it takes to go on."""
        began = time.monotonic()
        if fault is JavaFault.KILL_WORKER:
            self._worker.kill()
            self._worker.start(RECOVERY_S)
        else:
            before = hosts_of_connectors(self._worker)
            for host in before:
                host.kill()
            eventually(lambda: set(hosts_of_connectors(self._worker)) - set(before), within_s=RECOVERY_S)
        for victim in victims:
            victim.let_go()
        self.await_progress()
        return time.monotonic() - began

    def _recover(self, victims: Sequence[_Victim]) -> None:
        for victim in victims:
            victim.target.set_mark()
        self._await_marks(victims)

    def _await_marks(self, victims: Sequence[_Victim]) -> None:
        began = time.monotonic()
        of_target = {victim.target.name: victim for victim in victims}
        left = list(self._targets)

        def are_past() -> bool:
            for target in [each for each in left if each.is_past_mark()]:
                left.remove(target)
                if target.name in of_target:
                    of_target[target.name].took_s = time.monotonic() - began
            assert not left, f"{[each.name for each in left]} do not go on"
            return True

        with explained(self._states):
            eventually(are_past, within_s=RECOVERY_S, every_s=0.1)

    def _states(self) -> dict[str, object]:
        return {target.name: self._worker.status(target.name).get("tasks") for target in self._targets}

    def _note(self, number: int, fault: JavaFault, point: str, target: str, took_s: float) -> None:
        self._recoveries[fault].append(took_s)
        self._evidence.fault(fault.value, point, None, took_s, task_kind="Java", round=number)
        print(f"round {number}: {fault.value}, {target}, {point}: {took_s:.1f} s", flush=True)


@contextlib.contextmanager
def struck(worker: Worker, fault: JavaFault, which: int = 0) -> Iterator[None]:
    """Carry out a fault of one of the hosts of a worker's slots: the successors of its tasks go on in the block.

    What was stopped wakes up at the end of the block, also of one that fails, and has to end by itself.
    """
    found = eventually(lambda: hosts(worker), within_s=RECOVERY_S)
    host = found[which % len(found)]
    slot = host.parent()
    assert slot is not None
    zombies: list[psutil.Process] = []
    match fault:
        case JavaFault.KILL_HOST:
            host.kill()
        case JavaFault.KILL_SLOT:
            slot.kill()
        case JavaFault.KILL_WORKER:
            worker.kill()
            worker.start()
        case JavaFault.STOP_SLOT:
            zombies = [slot]
        case JavaFault.STOP_BOTH:
            zombies = [slot, host]
        case _:
            raise AssertionError(fault)
    try:
        for each in zombies:
            each.suspend()
        yield
    finally:
        resume(zombies)
    eventually(lambda: not any(map(is_alive, zombies)), within_s=RECOVERY_S)


def _left(victims: Sequence[_Victim]) -> bool:
    left = [(str(victim.blow), victim.host, victim.slot) for victim in victims if not victim.is_gone()]
    raise AssertionError(f"these have not ended: {left}")
