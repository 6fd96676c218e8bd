"""Faults at chosen points of a sink's calls: tasks are held there, commits are read, then the fault happens."""

import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import psutil
from confluent_kafka import Producer

from fencepost.kafka.group.group_survey import GroupSurvey
from fencepost.testing import eventually
from support.chaos import wire
from support.chaos.campaign import RECOVERY_S
from support.chaos.evidence import Evidence
from support.chaos.fault import Kind
from support.chaos.insistence import insisted
from support.chaos.missed import Missed
from support.chaos.point import Moment
from support.chaos.processes import is_alive
from support.chaos.sink_gates import Life, SinkGates, Stop
from support.chaos.sink_log import SinkFile
from support.chaos.sink_point import SinkPhase, SinkPoint, SinkRound
from support.explained import explained
from support.feed import Repeatedly
from support.proxy import Action, ApiKey, KafkaProxy, Rule
from support.worker import Worker

PARTITIONS = 2
_EVERY_S = 0.2


class SinkTarget:
    """A sink of one task, in a slot of its own, and how far its topic and its group are."""

    def __init__(self, bootstrap: str, name: str, directory: Path) -> None:
        self.name = name
        self.group = f"connect-{name}"
        self.file = SinkFile(directory / f"{name}.txt")
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self._survey = GroupSurvey({"bootstrap.servers": bootstrap}, timeout_s=30)

    def config(self, gate: int) -> dict[str, str]:
        return {
            "connector.class": "gated_sink.GatedSink",
            "topics": self.name,
            "tasks.max": "1",
            "slot.dedicated": "true",
            "file": str(self.file.path),
            "gate": str(gate),
        }

    def committed(self) -> dict[int, int]:
        found = self._survey.committed(self.group, ())
        return {place.partition: stands.offset for place, stands in found.items() if stands is not None}

    def close(self) -> None:
        self._survey.close()

    def is_committed_up_to(self, ends: dict[int, int]) -> bool:
        committed = self.committed()
        return all(committed.get(place, 0) >= end for place, end in ends.items())


class SinkFeed(Repeatedly):
    """Writes numbers to the topics of all targets, a few records each to every partition. A context manager."""

    def __init__(self, bootstrap: str, targets: Sequence[SinkTarget]) -> None:
        super().__init__(self._feed, _EVERY_S)
        self._targets = targets
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})

    def _feed(self) -> None:
        made = [(target, place, end + n) for target in self._targets for place, end in target.ends.items()
                for n in range(6)]  # fmt: skip
        for target, place, number in made:
            self._producer.produce(target.name, f"{place}-{number}".encode(), partition=place)
        assert self._producer.flush(60) == 0
        for target, place, number in made:
            target.ends[place] = number + 1


class _Hold:
    """Keeps one target at one point: arm ▸ await_held ▸ (the fault) ▸ release, or discard."""

    def __init__(
        self, worker: Worker, gates: SinkGates, proxy: KafkaProxy, target: SinkTarget, point: SinkPoint
    ) -> None:
        self.target, self.point = target, point
        self._worker, self._gates, self._proxy = worker, gates, proxy
        self._stop: Stop | None = None
        self._rule: Rule | None = None

    def arm(self) -> None:
        name, phase, moment = self.target.name, self.point.phase, self.point.moment
        if phase is SinkPhase.COMMIT:
            action = {Moment.BEFORE: Action.HOLD, Moment.DURING: Action.HOLD_ANSWER, Moment.AFTER: Action.PASS}[moment]
            group = self.target.group
            rule = self._rule = self._proxy.on(ApiKey.OFFSET_COMMIT, action, 1, lambda r: wire.names(r, group))
            if moment is Moment.AFTER:
                self._stop = self._gates.hold(name, "put before", lambda: rule.answered > 0)
            return
        self._stop = self._gates.hold(name, f"{phase.value} {moment.value}")
        if phase is SinkPhase.OPEN:
            insisted(lambda via: via.rest.post(f"/connectors/{name}/tasks/0/restart"), self._worker, RECOVERY_S)

    def await_held(self) -> Life:
        """Wait until it is there; returns the life that is."""
        if self._stop is not None:
            self._stop.await_held()
            assert self._stop.held is not None
            return self._stop.held
        assert self._rule is not None
        self._rule.await_met(within_s=120)
        if self.point.moment is Moment.DURING:
            self._rule.await_answered(within_s=120)
        return self._gates.newest(self.target.name)

    def let_go(self, *, is_late: bool) -> None:
        """Deliver what was withheld, or lose it; a task that lives goes on."""
        if self._rule is not None:
            self._proxy.forget(self._rule)
            if is_late:
                self._rule.release()
            else:
                self._rule.discard()
        if self._stop is not None:
            self._stop.released.set()


class SinkMatrix:
    """Carries out rounds of faults. A round's targets are held, each at its point, and are all hit at once."""

    def __init__(
        self,
        worker: Worker,
        targets: Sequence[SinkTarget],
        gates: SinkGates,
        proxy: KafkaProxy,
        evidence: Evidence,
    ) -> None:
        self._worker = worker
        self._targets = targets
        self._gates = gates
        self._proxy = proxy
        self._evidence = evidence
        self.recoveries: dict[Kind, list[float]] = defaultdict(list)
        self._steps: list[tuple[str, float]] = []
        self._missed = Missed(worker, len(targets))

    def run(self, rounds: Iterable[SinkRound]) -> None:
        began = time.monotonic()
        self._await_commits(self._targets)
        print(f"all have committed after {time.monotonic() - began:.1f} s", flush=True)
        for number, each in enumerate(rounds, 1):
            self._steps = [("", time.monotonic())]
            self._carry_out(number, each)
            took = [f"{what} {at - before:.1f} s" for (_, before), (what, at) in pairwise(self._steps)]
            print(f"round {number} took {time.monotonic() - self._steps[0][1]:.1f} s: {', '.join(took)}", flush=True)
        self._missed.check(sum(map(len, self.recoveries.values())))
        for kind, times in self.recoveries.items():
            print(
                f"{kind.value}: n={len(times)}, recovery p50 {statistics.median(times):.1f} s, max {max(times):.1f} s"
            )

    def prove(self) -> int:
        """Wait until all that was written is committed, and judge it; returns how many records there were."""
        self._await_commits(self._targets)
        records = 0
        for target in self._targets:
            target.file.mark(target.committed())
            log = target.file.read()
            verdict = log.judged(target.ends)
            print(f"{target.name}: {verdict}; {log.records - len(log.firsts)} put again", flush=True)
            assert verdict.is_clean, f"{target.name}: {verdict}"
            assert not log.faults, f"{target.name}: {log.faults[:5]}"
            records += len(log.firsts)
        return records

    def _carry_out(self, number: int, each: SinkRound) -> None:
        """Hold ▸ read what is committed ▸ hit ▸ recover ▸ what was withheld comes late, or never."""
        holds = [_Hold(self._worker, self._gates, self._proxy, self._targets[t], p) for t, p, _ in each.blows]
        for hold in holds:
            hold.arm()
        lives = [hold.await_held() for hold in holds]
        for hold in holds:
            hold.target.file.mark(hold.target.committed())
        self._step("held")
        is_stop = each.kind is Kind.STOP_SLOT
        struck = [self._strike(hold, life, is_stop=is_stop) for hold, life in zip(holds, lives, strict=True)]
        victims = [victim for victim in struck if victim is not None]
        took_s = self._recover(holds, lives)
        self._step("replaced")
        if is_stop:
            gone = [victim for victim in victims if not is_alive(victim)]
            assert not gone, f"zombies were gone before they could wake up: {gone}"
            for victim in victims:
                victim.resume()
        for hold, (_, _, is_late) in zip(holds, each.blows, strict=True):
            hold.let_go(is_late=is_stop or is_late)
        if is_stop:
            eventually(lambda: not any(map(is_alive, victims)), within_s=RECOVERY_S)
            self._step("zombies gone")
        self._await_commits([hold.target for hold in holds])
        self._step("committed")
        for hold, victim, recovery_s in zip(holds, struck, took_s, strict=True):
            if victim is not None:
                self._note(number, each.kind, hold, recovery_s)

    def _strike(self, hold: _Hold, life: Life, *, is_stop: bool) -> psutil.Process | None:
        """Hit a slot; None: it has stood still for longer than its lease, by chance, and is replaced already."""
        try:
            victim = psutil.Process(life.pid)
            if is_alive(victim):
                victim.suspend() if is_stop else victim.kill()
                return victim
        except psutil.NoSuchProcess:
            pass
        self._missed.add(life.pid, f"{hold.target.name}, {hold.point}")
        return None

    def _step(self, what: str) -> None:
        self._steps.append((what, time.monotonic()))

    def _recover(self, holds: Sequence[_Hold], lives: Sequence[Life]) -> list[float]:
        """Wait until successors have written of every partition; returns how long each took."""
        began = time.monotonic()
        took_s: dict[int, float] = {}

        def are_all_back() -> bool:
            for index, (hold, life) in enumerate(zip(holds, lives, strict=True)):
                if index not in took_s and hold.target.file.read().is_followed(life.name, PARTITIONS):
                    took_s[index] = time.monotonic() - began
            missing = [str(hold.point) for index, hold in enumerate(holds) if index not in took_s]
            assert not missing, f"nobody goes on behind {missing}"
            return True

        with explained(self._states):
            eventually(are_all_back, within_s=RECOVERY_S, every_s=0.1)
        return [took_s[index] for index in range(len(holds))]

    def _await_commits(self, targets: Sequence[SinkTarget]) -> None:
        """Wait until what is written by now is committed: who has committed is not suspected of its slot's death."""
        left = {target: dict(target.ends) for target in targets}

        def are_there() -> bool:
            for target, ends in list(left.items()):
                if target.is_committed_up_to(ends):
                    del left[target]
            assert not left, f"{[target.name for target in left]} do not commit"
            return True

        with explained(self._states):
            eventually(are_there, within_s=RECOVERY_S, every_s=0.2)

    def _states(self) -> dict[str, list[str]]:
        return {target.name: self._worker.task_states(target.name) for target in self._targets}

    def _note(self, number: int, kind: Kind, hold: _Hold, took_s: float) -> None:
        self.recoveries[kind].append(took_s)
        self._evidence.fault(kind.value, str(hold.point), None, took_s, task_kind="sink", round=number)
        print(f"round {number}: {kind.value}, {hold.target.name}, {hold.point}: {took_s:.1f} s", flush=True)
