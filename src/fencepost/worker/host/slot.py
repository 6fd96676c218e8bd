"""The slots of a worker: a pool that requests them from Spark and spreads tasks over them, and their channel."""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

from fencepost.cluster.figures import SlotFigures
from fencepost.config.worker import SlotConfig
from fencepost.spark.slot.cores import CoreLedger, CoreUse, NoCoreError
from fencepost.spark.slot.job import ProcessEnds, SlotCrashedError, SlotJobs
from fencepost.task.channel.message import (
    STANDS_STILL,
    Directive,
    Directives,
    DirectivesRequest,
    Registration,
    Reports,
    Stacks,
    TaskReport,
    Verb,
)
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.slot.worker_line import SlotSpec
from fencepost.task.start.progress import utc_of
from fencepost.telemetry.loggers import Loggers, loggers
from fencepost.worker.channel import RefusedError
from fencepost.worker.supervision.port import STARTING, HostEvents, NoRoomError
from fencepost.worker.supervision.task.suspicion import TRIAL_S

_BUSY_RECORDS_PER_S = 500.0
_NEW_TASK_S = 3.0
log = logging.getLogger(__name__)

_POLL_S = 1.0
_SUCCESSOR_S = 5.0
"""For how long a slot waits for its successor; a standalone worker kills its executors ten seconds after SIGTERM."""


@dataclass
class SlotTask:
    placed: float
    polled: float = 0.0
    seen: float = 0.0
    rate: float = 0.0
    last: TaskReport | None = None

    def load(self, now: float) -> float:
        """Return 0 to 1: little for an idle task, a whole thread for a busy one, in between for a new one."""
        if self.rate >= _BUSY_RECORDS_PER_S:
            return 1.0
        return 0.25 if now - self.placed < _NEW_TASK_S else 0.01

    def record(self, report: TaskReport) -> None:
        """Measure the rate at which the task moves records."""
        now, polled = time.monotonic(), report.counters.get("records_polled", 0.0)
        if self.seen and now - self.seen > 0.2:
            self.rate = (polled - self.polled) / (now - self.seen)
        self.polled, self.seen, self.last = polled, now, report


class Use(Enum):
    """OPEN: it may get tasks; all others get no more.

    TAINTED: it has an abandoned thread. REPLACED: its executor is to be taken away, and another slot is awaited.
    LEAVING: it is to end.
    """

    OPEN = auto()
    TAINTED = auto()
    REPLACED = auto()
    LEAVING = auto()


@dataclass
class Outbox:
    """Directives that a slot has not acknowledged."""

    directives: list[Directive] = field(default_factory=list)
    next_seq: int = 1

    def add(self, verb: Verb, **more: Any) -> None:
        """Add a directive; `more` has its other fields."""
        self.directives.append(Directive(self.next_seq, verb, **more))
        self.next_seq += 1

    def acknowledge(self, seq: int) -> None:
        self.directives = [one for one in self.directives if one.seq > seq]


@dataclass(frozen=True)
class Contact:
    """When a slot was last heard of. `stacks`: where its tasks were when all its threads stood still since then."""

    at: float = 0.0
    stacks: str = ""


@dataclass
class PooledSlot:
    """A slot that was launched. `owner` is the task, or connector's task, for which alone it is."""

    id: str
    owner: str | None = None
    is_trial: bool = False  # its owner has it alone until it makes progress
    use: Use = Use.OPEN
    attempt: str | None = None
    contact: Contact = Contact()
    tasks: dict[str, SlotTask] = field(default_factory=dict)
    outbox: Outbox = field(default_factory=Outbox)

    def end_trial(self) -> None:
        self.is_trial, self.owner = False, None


class SlotTable:
    """The slots by id. Its users hold `changed` while they read or change them."""

    def __init__(self, loggers: Loggers) -> None:
        self.slots: dict[str, PooledSlot] = {}
        self.processes: dict[str, SlotFigures] = {}  # those that have registered, by slot
        self.changed = threading.Condition()
        self._loggers = loggers
        loggers.follow(self._send_levels)

    def add(self, slot: PooledSlot) -> None:
        """Add a slot that is to be launched."""
        self.slots[slot.id] = slot
        if levels := self._loggers.chosen():
            self.send(slot, Verb.LEVELS, levels=levels)

    def all(self) -> Sequence[PooledSlot]:
        return tuple(self.slots.values())

    def of(self, incarnation: str) -> PooledSlot | None:
        """Return the slot that runs a start of a task."""
        return next((s for s in self.slots.values() if incarnation in s.tasks), None)

    def current(self, slot_id: str, attempt: str) -> PooledSlot:
        """Return the slot that makes a request, and note that it has. Raises RefusedError if it has a successor."""
        slot = self.newest(slot_id, attempt)
        slot.contact = Contact(time.monotonic())
        return slot

    def newest(self, slot_id: str, attempt: str) -> PooledSlot:
        """Return the slot that something is said of. Raises RefusedError if it has a successor."""
        slot = self.slots.get(slot_id)
        if slot is None or slot.attempt != attempt:
            raise RefusedError(f"attempt {attempt} of slot {slot_id} has a successor")
        return slot

    def send(self, slot: PooledSlot, verb: Verb, **more: Any) -> None:
        """Queue a directive for a slot; `more` has its other fields."""
        slot.outbox.add(verb, **more)
        self.changed.notify_all()

    def _send_levels(self) -> None:
        with self.changed:
            for slot in self.all():
                self.send(slot, Verb.LEVELS, levels=self._loggers.chosen())

    def ask_to_leave(self, slot: PooledSlot) -> None:
        slot.use = Use.LEAVING
        self.send(slot, Verb.LEAVE)


class SlotChannel:
    """Only the newest registration of a slot counts; an older attempt that still lives is asked to leave."""

    def __init__(self, table: SlotTable, events: HostEvents, retire: Callable[[PooledSlot], None]) -> None:
        self._table = table
        self._events = events
        self._retire = retire

    def register(self, body: dict[str, Any]) -> dict[str, Any]:
        """Register the process of a slot."""
        message = Registration.from_json(body)
        lost: Sequence[str] = ()
        with self._table.changed:
            slot = self._table.slots.get(message.slot)
            if slot is None or slot.use is Use.LEAVING:
                raise RefusedError(f"slot {message.slot} is no longer needed")
            if slot.attempt is not None and slot.attempt != message.attempt:
                if _attempt_number(message.attempt) < _attempt_number(slot.attempt):
                    raise RefusedError(f"attempt {message.attempt} of slot {slot.id} has a successor")
                lost = tuple(slot.tasks)
                slot.tasks.clear()
                slot.outbox.directives.clear()
            slot.attempt, slot.contact = message.attempt, Contact(time.monotonic())
            self._table.processes[slot.id] = SlotFigures(slot.id, message.pid)
            self._table.changed.notify_all()
        log.info("slot %s is ready (pid %s)", message.slot, message.pid)
        if lost:
            self._events.crashed(lost, "Spark has run its slot's process again")
        return {}

    def directives(self, body: dict[str, Any]) -> dict[str, Any]:
        """Answer a slot that asks for directives; the answer waits until there are some."""
        asked = DirectivesRequest.from_json(body)
        self._moves_again(asked.slot, asked.attempt)
        with self._table.changed:
            slot = self._table.current(asked.slot, asked.attempt)
            slot.outbox.acknowledge(asked.ack)
            pid = self._table.processes[slot.id].pid
            self._table.processes[slot.id] = SlotFigures(slot.id, pid, asked.resident_bytes, asked.host_resident_bytes)
            self._table.changed.wait_for(lambda: slot.outbox.directives or slot.attempt != asked.attempt, _POLL_S)
            slot = self._table.current(asked.slot, asked.attempt)
            return Directives(tuple(slot.outbox.directives)).to_json()

    def report(self, body: dict[str, Any]) -> dict[str, Any]:
        """Take a slot's reports about its tasks."""
        message = Reports.from_json(body)
        self._moves_again(message.slot, message.attempt)
        with self._table.changed:
            slot = self._table.current(message.slot, message.attempt)
            known = [one for one in message.reports if one.incarnation in slot.tasks]
            lost = [one for one in message.lost if one.report.incarnation in slot.tasks]
            for each in (*known, *(one.report for one in lost)):
                self._record_report(slot, each)
        self._events.reported([*known, *(one.report for one in lost)])
        for one in lost:  # a process below the slot is gone
            reason = one.report.trace or "the process that ran its code ended"
            if one.crashed_with:
                self._events.crashed(one.crashed_with, reason)
                self._stop_all(slot, one.crashed_with)
            else:
                self._events.lost((one.report.incarnation,), reason)
        return {}

    def _stop_all(self, slot: PooledSlot, crashed: Collection[str]) -> None:
        """Stop starts that are over for the worker: one that calls nothing in the process that is gone goes on."""
        with self._table.changed:
            for incarnation in slot.tasks.keys() & crashed:
                self._table.send(slot, Verb.STOP, incarnation=incarnation)

    def stacks(self, body: dict[str, Any]) -> dict[str, Any]:
        """Take where the tasks of a slot are whose threads all stand still: their statuses say so until it moves."""
        message = Stacks.from_json(body)
        with self._table.changed:
            slot = self._table.newest(message.slot, message.attempt)
            here = {one: text for one, text in message.stacks.items() if one in slot.tasks}
            lasts = [last for one in here if (last := slot.tasks[one].last) is not None]
            named = {last.incarnation: f"{last.connector}-{last.task}" for last in lasts}
            stacks = "\n".join(f"Task {named.get(one, one)} was in this call:\n{text}" for one, text in here.items())
            slot.contact = Contact(slot.contact.at, stacks)
        if here:
            log.warning("all threads of slot %s stand still. %s", slot.id, stacks)
        since = utc_of(slot.contact.at)
        self._events.reported([_standing_still(last, since, here[last.incarnation]) for last in lasts])
        return {}

    def _moves_again(self, slot_id: str, attempt: str) -> None:
        """Take back that all threads of a slot stand still: reports that have not changed do not come again.

        Raises RefusedError if it has a successor.
        """
        with self._table.changed:
            slot = self._table.newest(slot_id, attempt)
            if not slot.contact.stacks:
                return
            slot.contact = Contact(slot.contact.at)
            lasts = [task.last for task in slot.tasks.values() if task.last is not None]
        log.warning("the threads of slot %s move again", slot_id)
        self._events.reported(lasts)

    def _record_report(self, slot: PooledSlot, report: TaskReport) -> None:
        if report.state.is_over:
            slot.tasks.pop(report.incarnation, None)
            self._retire(slot)
            return
        slot.tasks[report.incarnation].record(report)
        if slot.is_trial and report.counters.get("commits", 0.0):
            slot.end_trial()


def _standing_still(last: TaskReport, since: str, stack: str) -> TaskReport:
    lease = SlotConfig.key_of("slot_lease_ms")
    text = (
        f"All threads of the task's process have stood still since {since}: a call of this task or of another one "
        f"holds Python's interpreter lock (change that call; after {lease}, tasks go on in another process). "
        f"This task is inside this call, innermost first:\n{stack}"
    )
    trace = "\n\n".join(filter(None, (last.trace, text)))
    return replace(last, trace=trace, counters={**last.counters, STANDS_STILL: 1.0})


def _attempt_number(attempt: str) -> int:
    """Return Spark's number of an attempt, which grows with every re-run; its rest distinguishes processes."""
    return int(attempt.partition("-")[0])


class SlotPool:
    """A `TaskHost` over Spark slots. Directives wait in a queue until their slot asks for them.

    A slot that is silent for longer than its lease, or whose Spark job ended, is lost with its tasks.
    """

    def __init__(
        self,
        events: HostEvents,
        ledger: CoreLedger,
        ends: ProcessEnds,
        spec: SlotSpec,
        max_slots: int,
        loggers: Loggers = loggers,
    ) -> None:
        self._events = events
        self._ledger = ledger
        self._ends = ends
        self._spec = spec
        self._max_slots = max_slots
        self._jobs: SlotJobs | str = STARTING  # or why there is no Spark
        self._table = SlotTable(loggers)
        self.channel = SlotChannel(self._table, events, self._maybe_retire)

    def attach(self, jobs: SlotJobs | str) -> None:
        """Use a Spark that is ready, and launch what is needed; a text says why there is none."""
        with self._table.changed:
            self._jobs = jobs
        self._events.room_changed()

    def prepare(self, *, is_full: bool = False) -> None:
        """Launch a slot before the first task comes, or with `is_full` as many as limit and free cores allow."""
        with self._table.changed:
            for _ in range((self._max_slots if is_full else 1) - len(self._table.slots)):
                try:
                    self._launch(None)
                except (NoRoomError, NoCoreError) as error:
                    log.debug("no slot is launched in advance: %s", error)
                    return

    def wait_until_there(self, timeout_s: float) -> bool:
        """Wait until there is a slot, and all launched ones have registered. Returns whether they have."""
        with self._table.changed:
            return self._table.changed.wait_for(
                lambda: bool(self._table.slots) and all(s.attempt for s in self._table.all()), timeout_s
            )

    # TaskHost

    def start(self, spec: TaskSpec) -> None:
        """Give a task to the slot with the least load, or to a new one. Raises NoRoomError."""
        with self._table.changed:
            slot = self._choose(spec.id if spec.run.is_dedicated or spec.run.is_alone else None)
            slot.is_trial = spec.run.is_alone and not spec.run.is_dedicated
            slot.tasks[spec.incarnation] = SlotTask(time.monotonic())
            self._table.send(slot, Verb.START, spec=spec.unresolved())  # E11

    def stop(self, incarnation: str) -> None:
        self._send(incarnation, Verb.STOP)

    def pause(self, incarnation: str) -> None:
        self._send(incarnation, Verb.PAUSE)

    def resume(self, incarnation: str) -> None:
        self._send(incarnation, Verb.RESUME)

    def abandon(self, incarnation: str) -> Sequence[str]:
        with self._table.changed:
            slot = self._table.of(incarnation)
            if slot is None:
                return ()
            self._table.send(slot, Verb.ABANDON, incarnation=incarnation)
            slot.tasks.pop(incarnation, None)
            if slot.use is Use.OPEN:
                slot.use = Use.TAINTED
            self._maybe_retire(slot)
            return tuple(slot.tasks)

    def figures(self) -> Mapping[str, SlotFigures]:
        """Return the slot of each start that runs here, by incarnation."""
        with self._table.changed:
            processes = self._table.processes
            return {
                task: processes[slot.id] for slot in self._table.all() if slot.id in processes for task in slot.tasks
            }

    # events of Spark, and of time

    def job_ended(self, slot_id: str, error: Exception | None) -> None:
        """Handle the end of a slot's Spark job: it died, left, or was cancelled."""
        with self._table.changed:
            slot = self._table.slots.pop(slot_id, None)
            self._table.processes.pop(slot_id, None)
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

    def executor_leaves(self, slot_id: str, for_s: float) -> None:
        """Replace a slot whose executor is to be taken away, which has been known for `for_s`; call this repeatedly.

        Once another slot is there, or cannot be awaited any longer, it stops its tasks, which start in the other, and
        leaves.
        """
        with self._table.changed:
            slot = self._table.slots.get(slot_id)
            if slot is None or slot.use is Use.LEAVING:
                return
            slot.use = Use.REPLACED
            others = [s for s in self._table.all() if s.use is Use.OPEN and s.owner == slot.owner]
            if not slot.tasks or any(s.attempt for s in others) or for_s > _SUCCESSOR_S:
                log.info("slot %s leaves: its executor is about to be taken away", slot_id)
                self._table.ask_to_leave(slot)
            elif not others:
                with contextlib.suppress(NoRoomError, NoCoreError):
                    self._launch(slot.owner)

    def check_leases(self) -> None:
        """Abandon slots that are silent for longer than their lease; end the trials of tasks that live."""
        now = time.monotonic()
        with self._table.changed:
            silent = [
                s for s in self._table.all() if s.attempt is not None and now - s.contact.at > self._spec.lease_s * 1.2
            ]
            for slot in silent:
                slot.use = Use.LEAVING
            for slot in [s for s in self._table.all() if s.is_trial]:
                if all(now - task.placed > TRIAL_S for task in slot.tasks.values()):
                    slot.end_trial()
        for slot in silent:
            log.warning("slot %s has been silent for longer than its lease; it is abandoned", slot.id)
            self._cancel(slot.id)
            self.job_ended(slot.id, _silence(slot))

    def release_all(self) -> None:
        """Ask every slot to leave, for a clean shutdown."""
        with self._table.changed:
            for slot in self._table.all():
                self._table.ask_to_leave(slot)

    # inside

    def _choose(self, owner: str | None) -> PooledSlot:
        now = time.monotonic()
        usable = [s for s in self._table.all() if s.use is Use.OPEN and s.owner == owner]
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

    def _launch_new(self, owner: str | None) -> PooledSlot:
        try:
            return self._launch(owner)
        except NoCoreError as error:
            idle = next((s for s in self._table.all() if not s.tasks and s.use is not Use.LEAVING), None)
            if idle is not None:  # its core becomes free for what needs one
                self._table.ask_to_leave(idle)
            raise NoRoomError(str(error)) from None

    def _launch(self, owner: str | None) -> PooledSlot:
        if isinstance(self._jobs, str):
            raise NoRoomError(self._jobs)
        self._ledger.take(1, CoreUse.SLOT)
        slot = PooledSlot(uuid.uuid4().hex[:8], owner=owner)
        self._table.add(slot)
        self._jobs.launch(slot.id, replace(self._spec, slot=slot.id).to_text())
        return slot

    def _cancel(self, slot_id: str) -> None:
        if not isinstance(self._jobs, str):
            threading.Thread(target=self._jobs.cancel, args=(slot_id,), name=f"cancel-{slot_id}", daemon=True).start()

    def _send(self, incarnation: str, verb: Verb) -> None:
        with self._table.changed:
            slot = self._table.of(incarnation)
            if slot is not None:
                self._table.send(slot, verb, incarnation=incarnation)

    def _maybe_retire(self, slot: PooledSlot) -> None:
        """Free the core of a slot that is no longer used: one with an abandoned task, or one dedicated to a task."""
        if slot.tasks or slot.use is Use.LEAVING:
            return
        if slot.use is Use.TAINTED:  # a thread that hangs in it would keep the process alive
            slot.use = Use.LEAVING
            self._cancel(slot.id)
        elif slot.owner is not None:
            self._table.ask_to_leave(slot)


def _silence(slot: PooledSlot) -> Exception:
    """Return why a slot is silent: a task may have stopped all of Python, else something outside may be the cause."""
    how = "silent for longer than its lease"
    if not slot.contact.stacks:
        return TimeoutError(how)
    return SlotCrashedError(f"{how}: all its threads stood still. {slot.contact.stacks}")
