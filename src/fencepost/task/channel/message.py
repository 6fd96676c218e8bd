"""The messages between a slot and its worker, in both directions: their paths, and the states of a task's start.

A slot, or the executor of a split, sends a request; the worker answers. Everything is JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from fencepost.storage.offset_copies import OffsetCopy
from fencepost.task.channel.codec import Message
from fencepost.task.channel.task_spec import TaskSpec


class Path(StrEnum):
    """Where a message goes. In brackets: the type of the request, and of the answer."""

    SLOT_REGISTER = "/slot/register"  # (Registration, nothing)
    SLOT_DIRECTIVES = "/slot/directives"  # (DirectivesRequest, Directives)
    SLOT_REPORT = "/slot/report"  # (Reports, nothing)
    SLOT_STACKS = "/slot/stacks"  # (Stacks, nothing)
    TASK_ADMIT = "/task/admit"  # (AdmissionRequest, Admission)
    TASK_COPY = "/task/copy"  # (TaskCopies, nothing)
    SPLIT_SPEC = "/split/spec"  # (RunRequest, SplitRun)
    SPLIT_ADMIT = "/split/admit"  # (RunRequest, SplitAdmission)
    SPLIT_UNCHANGED = "/split/unchanged"  # (RunRequest, SplitUnchanged)
    SPLIT_COPY = "/split/copy"  # (SplitCopies, nothing)
    SPLIT_REPORT = "/split/report"  # (SplitReport, nothing)
    SPLIT_EXPIRED = "/split/expired"  # (SplitExpiry, nothing)
    SPLIT_TEMPORARY_FAILURE = "/split/trouble"  # (TemporaryFailure, nothing)
    EPOCH_READING = "/epoch/reading"  # (RunRequest, EpochReading)
    RUN_WHEREABOUTS = "/run/whereabouts"  # (Whereabouts, nothing)


class RunState(StrEnum):
    """The state of a task in a slot."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    ABANDONED = "ABANDONED"  # the task is not, or is no longer, the one to run; this is not a failure
    LOST = "LOST"  # the process that ran its code is gone, though its slot is not; this is not a failure either

    @property
    def is_over(self) -> bool:
        """Say whether a start in this state will report nothing more."""
        return self in _OVER


_OVER = frozenset({RunState.FAILED, RunState.STOPPED, RunState.ABANDONED, RunState.LOST})


class Verb(StrEnum):
    """The kind of a directive: LEAVE and LEVELS are for the slot, all others are for one start of a task."""

    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    ABANDON = "abandon"
    LEAVE = "leave"
    LEVELS = "levels"


STANDS_STILL = "stands_still"
"""The counter that is 1 while the task's thread is inside a call that has not returned for `progress.timeout.ms`."""
HANGS = "hangs"
"""The counter that is 1 if this is not a call to Kafka, which may be away for a while."""
RETRYING = "retrying"
"""The counter that is 1 while the task tries again what has failed, and nothing has succeeded since."""

QUERY_LAGS = "query"
"""The kind of the figures of a streaming query: a topic that it reads, and how many of its records it has not read."""


@dataclass(frozen=True)
class TaskReport(Message):
    """A slot's report about one incarnation; counters are totals since its start.

    `figures` holds the task's own measurements (`MirrorTask.figures`) as JSON text: there may be thousands, and as
    text they are copied in one piece, and parsed only when someone asks for metrics.
    """

    connector: str
    task: int
    incarnation: str
    state: RunState
    trace: str | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    figures: str = ""


@dataclass(frozen=True)
class LostTask(Message):
    """The last report of a start whose code ran in a process that is gone; its `trace` says how that ended.

    `crashed_with` are the incarnations of all tasks that crashed with that process, this one among them; none if it was
    ended on purpose.
    """

    report: TaskReport
    crashed_with: tuple[str, ...] = ()


# `attempt` distinguishes the processes of a slot.


@dataclass(frozen=True)
class Registration(Message):
    """The process of a slot has started."""

    slot: str
    attempt: str
    pid: int | None = None
    host: str = ""


@dataclass(frozen=True)
class DirectivesRequest(Message):
    """A slot asks for directives, having carried out those up to number `ack`. This is also its heartbeat.

    `resident_bytes` is the memory of its process, `host_resident_bytes` the memory of its Java host, None without one.
    """

    slot: str
    attempt: str
    ack: int = 0
    resident_bytes: int | None = None
    host_resident_bytes: int | None = None


@dataclass(frozen=True)
class Directive(Message):
    """One thing to do, in the order of `seq`.

    START has a `spec`, LEVELS the `levels` of loggers; other verbs for a task have its `incarnation`.
    """

    seq: int
    verb: Verb
    incarnation: str = ""
    spec: TaskSpec | None = field(default=None, repr=False)
    levels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Directives(Message):
    """The directives that a slot has not carried out yet."""

    directives: tuple[Directive, ...]


@dataclass(frozen=True)
class Reports(Message):
    """Reports of the starts in a slot."""

    slot: str
    attempt: str
    reports: tuple[TaskReport, ...]
    lost: tuple[LostTask, ...] = ()


@dataclass(frozen=True)
class Stacks(Message):
    """The stacks of the tasks in a slot of which no thread can run, by incarnation."""

    slot: str
    attempt: str
    stacks: Mapping[str, str]


@dataclass(frozen=True)
class AdmissionRequest(Message):
    """A start has initialised its producer, and asks whether it is still the one to run.

    `wants_offsets` asks for the committed offsets, too. That takes until all open transactions of the offsets topic
    have ended, so a start that knows them does not ask. `ledger`: the topic of its ledger, empty if it has none.
    """

    connector: str
    task: int
    generation: int
    incarnation: str
    wants_offsets: bool = True
    ledger: str = ""


@dataclass(frozen=True)
class Admission(Message):
    """The worker's answer to a task that has initialised its producer (steps 6 and 7 of docs/architecture.md).

    `spellings`: source partitions whose key bytes in the offsets topic differ from ours, with those bytes. `failure`
    is an error that keeps the worker from admitting any start of the task until a user acts. `carried`: what the
    offsets topic carries of the task's ledger, by partition.
    """

    is_admitted: bool
    reason: str = ""
    offsets: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = ()
    spellings: tuple[tuple[dict[str, Any], str], ...] = ()
    failure: str = ""
    carried: tuple[tuple[int, bytes], ...] = ()


@dataclass(frozen=True)
class TaskCopies(Message):
    """Offsets that a start asks the worker to copy to its own topic; answered once they are acknowledged there."""

    connector: str
    task: int
    incarnation: str
    copies: tuple[OffsetCopy, ...]
