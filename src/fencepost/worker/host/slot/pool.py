"""The pool of slots: requests them from Spark, and spreads tasks over them."""

import logging
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from fencepost.cluster.figures import SlotFigures
from fencepost.config.connector import RuntimeChoice
from fencepost.spark.slot.cores import CoreLedger, CoreUse, NoCoreError
from fencepost.spark.slot.ended import ProcessEnds
from fencepost.spark.slot.job import SlotCrashedError
from fencepost.task.channel.message import Verb
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.slot.worker_line import SlotSpec
from fencepost.telemetry.loggers import Loggers, loggers
from fencepost.worker.host.slot.channel import SlotChannel
from fencepost.worker.host.slot.table import PooledSlot, SlotTable, SlotTask, Use
from fencepost.worker.supervision.port import STARTING, HostEvents, NoRoomError
from fencepost.worker.supervision.task.suspicion import TRIAL_S

log = logging.getLogger(__name__)


class Jobs(Protocol):
    """The part of `SlotJobs` that is needed here."""

    def launch(self, slot_id: str, spec_json: str) -> None: ...

    def cancel(self, slot_id: str) -> None: ...


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
        """`spec` is that of every slot, but for its id. Slots get the levels of `loggers`, too."""
        self._events = events
        self._ledger = ledger
        self._ends = ends
        self._spec = spec
        self._max_slots = max_slots
        self._jobs: Jobs | str = STARTING  # or why there is no Spark
        self._table = SlotTable(loggers)
        self.channel = SlotChannel(self._table, events, self._maybe_retire)

    def attach(self, jobs: Jobs | str) -> None:
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
            is_dedicated = RuntimeChoice(spec.connector_config).is_dedicated
            slot = self._choose(spec.id if is_dedicated or spec.runs_alone else None)
            slot.is_trial = spec.runs_alone and not is_dedicated
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
            self._let_an_idle_slot_go()
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
        """Let Spark end a slot's job, without waiting for it: its JVM may hang."""
        if not isinstance(self._jobs, str):
            threading.Thread(target=self._jobs.cancel, args=(slot_id,), name=f"cancel-{slot_id}", daemon=True).start()

    def _send(self, incarnation: str, verb: Verb) -> None:
        with self._table.changed:
            slot = self._table.of(incarnation)
            if slot is not None:
                self._table.send(slot, verb, incarnation=incarnation)

    def _let_an_idle_slot_go(self) -> None:
        """Make an idle slot leave, so that its core becomes free for what needs one."""
        idle = next((s for s in self._table.all() if not s.tasks and s.use is not Use.LEAVING), None)
        if idle is not None:
            self._table.ask_to_leave(idle)

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
