"""Slots: requests them from Spark, spreads tasks over them, and talks to them through the channel."""

import logging
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fencepost.config.connector import RuntimeChoice
from fencepost.spark.slot.cores import CoreLedger, CoreUse, NoCoreError
from fencepost.spark.slot.ended import ProcessEnds
from fencepost.spark.slot.job import SlotCrashedError
from fencepost.task.channel.message import (
    Directive,
    Directives,
    DirectivesRequest,
    Registration,
    Reports,
    TaskReport,
    Verb,
)
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.slot.worker_line import SlotSpec
from fencepost.worker.channel import RefusedError
from fencepost.worker.supervision.port import HostEvents, NoRoomError
from fencepost.worker.supervision.suspicion import TRIAL_S

log = logging.getLogger(__name__)

_POLL_S = 1.0
_BUSY_RECORDS_PER_S = 500.0
_NEW_TASK_S = 3.0


class Jobs(Protocol):
    """The part of `SlotJobs` that is needed here."""

    def launch(self, slot_id: str, spec_json: str) -> None: ...

    def cancel(self, slot_id: str) -> None: ...


@dataclass
class _Task:
    incarnation: str
    placed: float
    polled: float = 0.0
    seen: float = 0.0
    rate: float = 0.0

    def load(self, now: float) -> float:
        """Return 0 to 1: little for an idle task, a whole thread for a busy one, and something in between for a new
        one.
        """
        if self.rate >= _BUSY_RECORDS_PER_S:
            return 1.0
        return 0.25 if now - self.placed < _NEW_TASK_S else 0.01


@dataclass
class _Slot:
    id: str
    attempt: str | None = None
    pid: int | None = None
    last_contact: float = 0.0
    tasks: dict[str, _Task] = field(default_factory=dict)
    directives: list[Directive] = field(default_factory=list)
    next_seq: int = 1
    is_tainted: bool = False
    is_leaving: bool = False
    owner: str | None = None
    is_trial: bool = False  # its owner has it alone until it makes progress

    def end_trial(self) -> None:
        """Become an ordinary slot."""
        self.is_trial, self.owner = False, None


class SlotPool:
    """A `TaskHost` over Spark slots. It has one lock; directives wait in a queue until their slot asks for them.

    Only the newest registration of a slot counts; an older attempt that still lives is asked to leave. A slot that is
    silent for longer than its lease, or whose Spark job ended, is lost with its tasks.
    """

    def __init__(
        self,
        events: HostEvents,
        ledger: CoreLedger,
        channel_url: str,
        ends: ProcessEnds,
        *,
        lease_s: float,
        max_slots: int,
        log_level: str = "INFO",
    ) -> None:
        self._events = events
        self._ledger = ledger
        self._channel_url = channel_url
        self._ends = ends
        self._lease_s = lease_s
        self._max_slots = max_slots
        self._log_level = log_level
        self._jobs: Jobs | None = None
        self._slots: dict[str, _Slot] = {}
        self._changed = threading.Condition()

    def attach(self, jobs: Jobs | None) -> None:
        """Use a Spark that is ready, and launch what is needed; None if Spark is gone."""
        with self._changed:
            self._jobs = jobs
        self._events.room_changed()

    def prepare(self, *, is_full: bool = False) -> None:
        """Launch a slot before the first task comes, or with `is_full` as many as limit and free cores allow."""
        with self._changed:
            for _ in range((self._max_slots if is_full else 1) - len(self._slots)):
                try:
                    self._launch(None)
                except (NoRoomError, NoCoreError) as error:
                    log.debug("no slot is launched in advance: %s", error)
                    return

    def wait_until_there(self, timeout_s: float) -> bool:
        """Wait until there is a slot, and all launched ones have registered. Returns whether they have."""
        with self._changed:
            return self._changed.wait_for(
                lambda: bool(self._slots) and all(s.attempt for s in self._slots.values()), timeout_s
            )

    # TaskHost

    def start(self, spec: TaskSpec) -> None:
        """Give a task to the slot with the least load, or to a new one. Raises NoRoomError."""
        with self._changed:
            is_dedicated = RuntimeChoice(spec.connector_config).is_dedicated
            slot = self._choose(spec.id if is_dedicated or spec.runs_alone else None)
            slot.is_trial = spec.runs_alone and not is_dedicated
            slot.tasks[spec.incarnation] = _Task(spec.incarnation, time.monotonic())
            self._tell(slot, Verb.START, spec=spec)

    def stop(self, incarnation: str) -> None:
        self._send(incarnation, Verb.STOP)

    def pause(self, incarnation: str) -> None:
        self._send(incarnation, Verb.PAUSE)

    def resume(self, incarnation: str) -> None:
        self._send(incarnation, Verb.RESUME)

    def abandon(self, incarnation: str) -> Sequence[str]:
        with self._changed:
            slot = self._slot_of(incarnation)
            if slot is None:
                return ()
            self._tell(slot, Verb.ABANDON, incarnation)
            slot.tasks.pop(incarnation, None)
            slot.is_tainted = True
            self._maybe_retire(slot)
            return tuple(slot.tasks)

    # the channel

    def register(self, body: dict[str, Any]) -> dict[str, Any]:
        """Register the process of a slot."""
        message = Registration.from_json(body)
        lost: Sequence[str] = ()
        with self._changed:
            slot = self._slots.get(message.slot)
            if slot is None or slot.is_leaving:
                raise RefusedError(f"slot {message.slot} is no longer needed")
            if slot.attempt is not None and slot.attempt != message.attempt:
                if _attempt_number(message.attempt) < _attempt_number(slot.attempt):
                    raise RefusedError(f"attempt {message.attempt} of slot {slot.id} has a successor")
                lost = tuple(slot.tasks)
                slot.tasks.clear()
                slot.directives.clear()
            slot.attempt, slot.pid = message.attempt, message.pid
            slot.last_contact = time.monotonic()
            self._changed.notify_all()
        log.info("slot %s is ready (pid %s)", message.slot, message.pid)
        if lost:
            self._events.crashed(lost, "Spark has run its slot's process again")
        return {}

    def directives(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a slot that asks for directives; the answer waits until there are some."""
        asked = DirectivesRequest.from_json(body)
        with self._changed:
            slot = self._current(asked.slot, asked.attempt)
            slot.directives = [one for one in slot.directives if one.seq > asked.ack]
            self._changed.wait_for(lambda: bool(slot.directives) or slot.attempt != asked.attempt, _POLL_S)
            slot = self._current(asked.slot, asked.attempt)
            return Directives(tuple(slot.directives)).to_json()

    def report(self, body: dict[str, Any]) -> dict[str, Any]:
        """Take a slot's reports about its tasks."""
        message = Reports.from_json(body)
        with self._changed:
            slot = self._current(message.slot, message.attempt)
            known = [one for one in message.reports if one.incarnation in slot.tasks]
            for each in known:
                self._record_report(slot, each)
        self._events.reported(known)
        return {}

    # events of Spark, and of time

    def job_ended(self, slot_id: str, error: Exception | None) -> None:
        """Handle the end of a slot's Spark job: it died, left, or was cancelled."""
        with self._changed:
            slot = self._slots.pop(slot_id, None)
            if slot is None:
                return
            self._ledger.release(1, CoreUse.SLOT)
            lost = tuple(slot.tasks)
        name = self._ends.record(f"slot {slot_id}", error)
        if error is not None and name is None:
            log.warning("slot %s ended: %s", slot_id, error)
        how = f"was ended by {name}" if name is not None else f"ended: {error or 'it left'}"
        reason = f"the process of its slot {how}"
        had_begun = slot.attempt is not None  # else a machine was lost, or there was no memory for Python
        if lost and had_begun and isinstance(error, SlotCrashedError):
            self._events.crashed(lost, reason)
        elif lost:
            self._events.lost(lost, reason)
        self._events.room_changed()

    def check_leases(self) -> None:
        """Abandon slots that are silent for longer than their lease; end the trials of tasks that live."""
        now = time.monotonic()
        with self._changed:
            silent = [
                s for s in self._slots.values() if s.attempt is not None and now - s.last_contact > self._lease_s * 1.2
            ]
            for slot in silent:
                slot.is_leaving = True
            for slot in [s for s in self._slots.values() if s.is_trial]:
                if all(now - task.placed > TRIAL_S for task in slot.tasks.values()):
                    slot.end_trial()
        for slot in silent:
            log.warning("slot %s has been silent for longer than its lease; it is abandoned", slot.id)
            self._cancel(slot.id)
            self.job_ended(slot.id, TimeoutError("silent for longer than its lease"))

    def release_all(self) -> None:
        """Ask every slot to leave, for a clean shutdown."""
        with self._changed:
            for slot in self._slots.values():
                slot.is_leaving = True
                self._tell(slot, Verb.LEAVE)

    # inside

    def _current(self, slot_id: str, attempt: str) -> _Slot:
        slot = self._slots.get(slot_id)
        if slot is None or slot.attempt != attempt:
            raise RefusedError(f"attempt {attempt} of slot {slot_id} has a successor")
        slot.last_contact = time.monotonic()
        return slot

    def _choose(self, owner: str | None) -> _Slot:
        now = time.monotonic()
        usable = [s for s in self._slots.values() if not (s.is_tainted or s.is_leaving) and s.owner == owner]
        if owner is not None:
            return usable[0] if usable else self._launch_new(owner)
        loads = {s.id: sum(t.load(now) for t in s.tasks.values()) for s in usable}
        best = min(usable, key=lambda s: (loads[s.id], s.id), default=None)
        if best is not None and (loads[best.id] < 0.2 or len(usable) >= self._max_slots):
            return best
        try:
            return self._launch_new(None)
        except NoRoomError:
            if best is None:
                raise
            return best

    def _launch_new(self, owner: str | None) -> _Slot:
        try:
            return self._launch(owner)
        except NoCoreError as error:
            self._let_an_idle_slot_go()
            raise NoRoomError(str(error)) from None

    def _launch(self, owner: str | None) -> _Slot:
        if self._jobs is None:
            raise NoRoomError("Spark is still starting")
        self._ledger.take(1, CoreUse.SLOT)
        slot = _Slot(uuid.uuid4().hex[:8], owner=owner)
        self._slots[slot.id] = slot
        spec = SlotSpec(slot.id, self._channel_url, self._lease_s, self._log_level)
        self._jobs.launch(slot.id, spec.to_text())
        return slot

    def _cancel(self, slot_id: str) -> None:
        """Let Spark end a slot's job, without waiting for it: its JVM may hang."""
        if self._jobs is not None:
            threading.Thread(target=self._jobs.cancel, args=(slot_id,), name=f"cancel-{slot_id}", daemon=True).start()

    def _slot_of(self, incarnation: str) -> _Slot | None:
        return next((s for s in self._slots.values() if incarnation in s.tasks), None)

    def _send(self, incarnation: str, verb: Verb) -> None:
        with self._changed:
            slot = self._slot_of(incarnation)
            if slot is not None:
                self._tell(slot, verb, incarnation)

    def _tell(self, slot: _Slot, verb: Verb, incarnation: str = "", spec: TaskSpec | None = None) -> None:
        slot.directives.append(Directive(slot.next_seq, verb, incarnation, spec))
        slot.next_seq += 1
        self._changed.notify_all()

    def _record_report(self, slot: _Slot, report: TaskReport) -> None:
        if report.state.is_over:
            slot.tasks.pop(report.incarnation, None)
            self._maybe_retire(slot)
            return
        task, now = slot.tasks[report.incarnation], time.monotonic()
        polled = report.counters.get("records_polled", 0.0)
        if task.seen and now - task.seen > 0.2:
            task.rate = (polled - task.polled) / (now - task.seen)
        task.polled, task.seen = polled, now
        if slot.is_trial and report.counters.get("commits", 0.0):
            slot.end_trial()

    def _let_an_idle_slot_go(self) -> None:
        """Make an idle slot leave, so that its core becomes free for what needs one."""
        idle = next((s for s in self._slots.values() if not s.tasks and not s.is_leaving), None)
        if idle is not None:
            idle.is_leaving = True
            self._tell(idle, Verb.LEAVE)

    def _maybe_retire(self, slot: _Slot) -> None:
        """Free the core of a slot that is no longer used: one with an abandoned task, or one dedicated to a task."""
        if slot.tasks or slot.is_leaving or not (slot.is_tainted or slot.owner is not None):
            return
        slot.is_leaving = True
        if slot.is_tainted:  # a thread that hangs in it would keep the process alive
            self._cancel(slot.id)
        else:
            self._tell(slot, Verb.LEAVE)


def _attempt_number(attempt: str) -> int:
    """Return Spark's number of an attempt, which grows with every re-run; its rest distinguishes processes."""
    return int(attempt.partition("-")[0])
