"""Carries out planned faults on a cluster, each after the recovery from the previous one."""

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

from fencepost.embedded import EmbeddedKafka
from fencepost.storage.change import Assignment, TaskId
from fencepost.testing import eventually
from support.chaos.cluster_campaign import ClusterCampaign, Recovery
from support.chaos.cluster_fault import IN_WRITE, ClusterFault, Cut, Write
from support.chaos.gate import Closed
from support.chaos.hold import Coordinator
from support.chaos.insistence import TIMED_OUT, Request, insisted
from support.chaos.leader_hold import LeaderHold
from support.chaos.leader_writes import Asked, LeaderWrites, await_there
from support.cluster import identity, pause, ready, resume
from support.worker import Worker

CONVERGED_S = 10.0
_LONGEST_CUT_S = 2.0
_SETTLED_S = 60.0
_INSISTED_S = 240.0  # `recover` limits the time: that a user gave up is another matter


class ClusterChaos:
    """What is promised after each fault, and asserted (times in `make chaos`, but for one in ten):

    1. Within the session time-out and `CONVERGED_S` of the fault every task has committed a record that was made after
       it, and the workers that are left say that everything runs, on them. Where nobody has to be replaced (a broker or
       a worker that is started again at once), within `CONVERGED_S` of its being up.
    2. Within `CONVERGED_S` of the return of the victim (it has been started and is healthy, goes on, is connected) that
       is true of all workers, and tasks are spread evenly; for one that was not killed the session time-out is added,
       which it may take to find out.
    3. A write of the leader that met a fault is there as a whole, once somebody has insisted on it, and the next is
       accepted at once: it is not refused, unless somebody else leads by then.
    """

    def __init__(
        self, campaign: ClusterCampaign, writes: LeaderWrites, broker: EmbeddedKafka, coordinator: Coordinator
    ) -> None:
        self._campaign = campaign
        self._writes = writes
        self._broker = broker
        self._coordinator = coordinator
        self._gated = campaign.gated
        self._session_s = self._gated.session_s
        self._settled: Assignment | None = None
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="requests")
        self.recoveries: dict[str, list[Recovery]] = defaultdict(list)
        self.returns: dict[str, list[float]] = defaultdict(list)

    def run(self, faults: Iterable[ClusterFault]) -> None:
        self._settle(_SETTLED_S)
        for number, fault in enumerate(faults, 1):
            threading.Event().wait(fault.delay_s)
            began = time.monotonic()
            try:
                said = self._carry_out(fault)
            except AssertionError as error:
                raise AssertionError(f"fault {number}, {fault}: {error}") from error
            print(f"fault {number}: {fault}: {said}; {time.monotonic() - began:.1f} s in all", flush=True)
        print(self.summary(), flush=True)

    def summary(self) -> str:
        """Return what each kind of fault took, in a line."""
        lines = [f"{sum(map(len, self.recoveries.values()))} faults"]
        for what, found in sorted(self.recoveries.items()):
            new = [each.next_record_s for each in found]
            whole = [each.converged_s for each in found]
            lines.append(
                f"  {what}: n={len(found)}, new records p50 {statistics.median(new):.1f} s, max {max(new):.1f} s; "
                f"converged max {max(whole):.1f} s; after the return max {max(self.returns[what]):.1f} s"
            )
        return "\n".join(lines)

    def _carry_out(self, fault: ClusterFault) -> str:
        act: Callable[[ClusterFault], str] = {
            Cut.KILL: self._kill,
            Cut.STOP: self._stop,
            Cut.BROKER_LOST: self._cut_from_broker,
            Cut.PEERS_LOST: self._cut_from_peers,
            Cut.BROKER_KILL: self._kill_broker,
        }.get(fault.cut, self._lose_leader)
        return act(fault)

    # faults of one worker

    def _kill(self, fault: ClusterFault) -> str:
        victim = self._victim(fault)
        if not fault.is_quick:
            return self._replaced(fault, victim, victim.kill, partial(ready, victim), CONVERGED_S)
        asked = self._maybe_rescale(fault, self._others(victim)[0])
        self._campaign.set_marks()
        began = time.monotonic()
        victim.kill()
        ready(victim)
        up_s = time.monotonic() - began
        recovery = self._recovered(self._gated.workers, up_s + CONVERGED_S)
        return self._note(fault, recovery, recovery.converged_s - up_s, None, asked)

    def _stop(self, fault: ClusterFault) -> str:
        victim = self._victim(fault)
        within_s = CONVERGED_S + self._session_s
        try:
            return self._replaced(fault, victim, partial(pause, victim), partial(resume, victim), within_s)
        finally:
            resume(victim)

    def _cut_from_broker(self, fault: ClusterFault) -> str:
        victim = self._victim(fault)
        proxy = self._gated.station(victim).broker
        try:
            return self._replaced(fault, victim, proxy.pause, proxy.resume, CONVERGED_S + self._session_s)
        finally:
            proxy.resume()

    def _replaced(
        self, fault: ClusterFault, victim: Worker, injure: Callable[[], None], heal: Callable[[], None], within_s: float
    ) -> str:
        others = self._others(victim)
        asked = self._maybe_rescale(fault, others[0])
        self._campaign.set_marks()
        injure()
        recovery = self._recovered(others, self._session_s + CONVERGED_S)
        heal()
        returned_s = self._settle(within_s)
        return self._note(fault, recovery, returned_s, None, asked)

    def _cut_from_peers(self, fault: ClusterFault) -> str:
        """Nobody is replaced: everything that runs goes on. What needs the way waits until it is there again."""
        victim = self._victim(fault)
        gate = self._gated.station(victim).gate
        before = self._gated.snapshot().assignment
        self._campaign.set_marks()
        gate.close(Closed.SILENT if fault.is_silent else Closed.REFUSING)
        try:
            asked = self._maybe_rescale(fault, self._leader())
            but = partial(self._touched_since, self._settled, is_rescaled=asked is not None)
            recovery = self._campaign.recover(self._gated.workers, CONVERGED_S, is_even=False, but=but)
            threading.Event().wait(fault.choice * _LONGEST_CUT_S)
            assert asked is not None or self._gated.snapshot().assignment == before, "tasks were moved"
        finally:
            gate.open()
        return self._note(fault, recovery, self._settle(CONVERGED_S), None, asked)

    def _kill_broker(self, fault: ClusterFault) -> str:
        asked = self._maybe_rescale(fault, self._gated.workers[0])
        self._broker.kill()
        threading.Event().wait(fault.choice * _LONGEST_CUT_S)
        self._broker.start()
        self._campaign.set_marks()
        recovery = self._recovered(self._gated.workers, self._session_s + CONVERGED_S)
        return self._note(fault, recovery, recovery.converged_s, None, asked)

    # the leader, inside a write

    def _lose_leader(self, fault: ClusterFault) -> str:
        """Hold ▸ ask ▸ the leader is in its write ▸ it is lost ▸ others take over ▸ what was withheld comes late, or
        never ▸ it returns."""
        assert fault.write is not None
        assert fault.point is not None
        leader = self._leader()
        via, second = sorted(self._others(leader), key=lambda w: w.port, reverse=fault.choice < 0.5)
        self._campaign.worker = via
        asked = self._writes.asked(fault.write, fault.choice)
        group = self._gated.group
        hold = LeaderHold(
            self._gated.station(leader).broker, f"connect-cluster-{group}", asked.key.encode(), fault.point
        )
        hold.arm()
        answer: Future[list[str]] | None = None
        lost = [leader]
        if fault.write is Write.KEY:
            self._writes.let_key_expire()
        elif fault.write is Write.ASSIGNMENT:
            second.kill()
            lost.append(second)
        elif asked.request is not None:
            answer = self._pool.submit(self._insisted, asked.request, via, self._session_s + CONVERGED_S)
        described = hold.await_held(self._coordinator)
        self._campaign.set_marks()
        pause(leader) if fault.cut is Cut.WRITE_STOP else leader.kill()
        try:
            hold.let_through()
            recovery = self._taken_over(fault, [w for w in self._gated.workers if w not in lost], asked, answer, via)
            hold.release() if fault.is_late else hold.discard()
        finally:
            if fault.cut is Cut.WRITE_STOP:
                resume(leader)
        self._gated.cluster.start()  # those that were killed, at once
        returned_s = self._settle(CONVERGED_S + self._session_s)
        return self._note(fault, recovery, returned_s, described.state, answer)

    def _taken_over(
        self, fault: ClusterFault, others: list[Worker], asked: Asked, answer: Future[list[str]] | None, via: Worker
    ) -> Recovery:
        limit_s = self._session_s + CONVERGED_S
        touched = frozenset[str]() if asked.touched is None else frozenset({asked.touched.name})
        recovery = self._campaign.recover(others, limit_s, but=lambda: touched)
        if answer is not None:
            answer.result(_INSISTED_S)
        self._campaign.timed(
            "the write is there", CONVERGED_S, lambda patience_s: await_there(self._gated, asked, patience_s)
        )
        if asked.undo is not None:
            self._insisted(asked.undo, via, CONVERGED_S)
        self._write_next(via)
        return recovery

    def _write_next(self, via: Worker) -> None:
        """Check that a write is not refused, unless a worker stands still for so long, by chance, that the group
        elects again."""
        led = self._lead()
        refusals = self._insisted(self._writes.next_write(), via, CONVERGED_S)
        if any(TIMED_OUT not in refusal for refusal in refusals):
            try:
                eventually(lambda: self._lead() != led, within_s=CONVERGED_S)
            except AssertionError:
                raise AssertionError(f"the next write was refused, though {led} leads on: {refusals}") from None

    def _lead(self) -> tuple[str, int]:
        """Return who leads, and the generation of the group in which the leader has assigned the work."""
        assignment = self._gated.snapshot().assignment
        assert assignment is not None
        return identity(self._leader()), assignment.generation

    def _insisted(self, request: Request, via: Worker, within_s: float) -> list[str]:
        return self._campaign.timed(
            "a write is accepted", within_s, lambda patience_s: insisted(request, via, patience_s, is_hurt=True)
        )

    # parts

    def _leader(self) -> Worker:
        return self._gated.cluster.await_leader()

    def _victim(self, fault: ClusterFault) -> Worker:
        leader = self._leader()
        others = self._others(leader)
        victim = leader if fault.is_leader else others[int(fault.choice * len(others))]
        self._campaign.worker = self._others(victim)[0]
        return victim

    def _others(self, worker: Worker) -> list[Worker]:
        return [each for each in self._gated.workers if each is not worker]

    def _maybe_rescale(self, fault: ClusterFault, via: Worker) -> Future[list[str]] | None:
        if not fault.is_rescaled:
            return None
        return self._pool.submit(insisted, self._writes.rescale(fault.choice), via, _INSISTED_S, is_hurt=True)

    def _touched_since(self, before: Assignment | None, *, is_rescaled: bool) -> set[str]:
        """Return the connectors of which a task has moved, with the one that is rescaled.

        Starting such a task takes a request to the leader. On a busy machine tasks also move by themselves.
        """
        then, now = _owners(before), _owners(self._gated.snapshot().assignment)
        moved = {task.connector for task in then.keys() & now.keys() if then[task] != now[task]}
        return {self._writes.elastic.name, *moved} if is_rescaled else moved

    def _recovered(self, among: list[Worker], within_s: float) -> Recovery:
        return self._campaign.recover(among, within_s)

    def _settle(self, within_s: float) -> float:
        """Wait until all runs, evenly, on all workers, with new records; return how long that took."""
        self._campaign.set_marks()
        converged_s = self._campaign.recover(self._gated.workers, within_s).converged_s
        self._settled = self._gated.snapshot().assignment
        return converged_s

    def _note(
        self,
        fault: ClusterFault,
        recovery: Recovery,
        returned_s: float,
        state: str | None,
        answer: Future[list[str]] | None,
    ) -> str:
        refusals = [] if answer is None else answer.result(_INSISTED_S)
        self.recoveries[fault.what].append(recovery)
        self.returns[fault.what].append(returned_s)
        self._campaign.evidence.fault(
            fault.what,
            fault.phase,
            state,
            recovery.next_record_s,
            converged_s=round(recovery.converged_s, 3),
            returned_s=round(returned_s, 3),
            withheld=None if fault.cut not in IN_WRITE else "delivered late" if fault.is_late else "lost",
            refusals=refusals,
        )
        return (
            f"new records after {recovery.next_record_s:.1f} s, converged after {recovery.converged_s:.1f} s, "
            f"{returned_s:.1f} s after the return{f', {state}' if state else ''}"
            f"{f', refused: {refusals}' if refusals else ''}"
        )


def _owners(assignment: Assignment | None) -> dict[TaskId, str]:
    return {task: worker.url for worker in (assignment.workers if assignment else ()) for task in worker.tasks}
