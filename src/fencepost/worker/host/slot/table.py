"""The slots of a worker, as its pool and its channel know them."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from fencepost.cluster.figures import SlotFigures
from fencepost.task.channel.message import Directive, TaskReport, Verb
from fencepost.telemetry.loggers import Loggers
from fencepost.worker.channel import RefusedError

_BUSY_RECORDS_PER_S = 500.0
_NEW_TASK_S = 3.0


@dataclass
class SlotTask:
    placed: float
    polled: float = 0.0
    seen: float = 0.0
    rate: float = 0.0
    last: TaskReport | None = None

    def load(self, now: float) -> float:
        """Return 0 to 1: little for an idle task, a whole thread for a busy one, and something in between for a new
        one.
        """
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
    """OPEN: it may get tasks. TAINTED: it has an abandoned thread, and gets no more. LEAVING: it is to end."""

    OPEN = auto()
    TAINTED = auto()
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
        """Become an ordinary slot."""
        self.is_trial, self.owner = False, None


class SlotTable:
    """The slots by id. Its users hold `changed` while they read or change them."""

    def __init__(self, loggers: Loggers) -> None:
        """Slots get the levels of `loggers`, too."""
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
