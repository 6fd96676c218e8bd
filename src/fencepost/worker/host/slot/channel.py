"""The channel's `/slot/…`: slots register, ask for directives, and report."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from fencepost.cluster.figures import SlotFigures
from fencepost.task.channel.message import (
    STANDS_STILL,
    Directives,
    DirectivesRequest,
    LostTask,
    Registration,
    Reports,
    Stacks,
    TaskReport,
)
from fencepost.worker.channel import RefusedError
from fencepost.worker.host.slot.table import Contact, PooledSlot, SlotTable, Use
from fencepost.worker.supervision.port import HostEvents

log = logging.getLogger(__name__)

_POLL_S = 1.0


class SlotChannel:
    """Only the newest registration of a slot counts; an older attempt that still lives is asked to leave."""

    def __init__(self, table: SlotTable, events: HostEvents, retire: Callable[[PooledSlot], None]) -> None:
        """`retire` ends a slot that is no longer used."""
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
        for one in lost:
            self._tell_loss(one)
        return {}

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
        self._events.reported([_standing_still(last, here[last.incarnation]) for last in lasts])
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

    def _tell_loss(self, lost: LostTask) -> None:
        """Tell of a process below a slot that is gone, as of a slot; each of the tasks that it ran reports it."""
        reason = lost.report.trace or "the process that ran its code ended"
        if lost.crashed_with:
            self._events.crashed(lost.crashed_with, reason)
        else:
            self._events.lost((lost.report.incarnation,), reason)

    def _record_report(self, slot: PooledSlot, report: TaskReport) -> None:
        if report.state.is_over:
            slot.tasks.pop(report.incarnation, None)
            self._retire(slot)
            return
        slot.tasks[report.incarnation].record(report)
        if slot.is_trial and report.counters.get("commits", 0.0):
            slot.end_trial()


def _standing_still(last: TaskReport, stack: str) -> TaskReport:
    text = (
        "All threads of the task's process stand still: a call of this task or of another one holds Python's "
        f"interpreter lock. This task is inside this call, innermost first:\n{stack}"
    )
    trace = "\n\n".join(filter(None, (last.trace, text)))
    return replace(last, trace=trace, counters={**last.counters, STANDS_STILL: 1.0})


def _attempt_number(attempt: str) -> int:
    """Return Spark's number of an attempt, which grows with every re-run; its rest distinguishes processes."""
    return int(attempt.partition("-")[0])
