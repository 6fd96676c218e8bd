"""The requests of the executor of a run of splits, or of an epoch. `run` is the name of the run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.storage.offset_copies import OffsetCopy
from fencepost.task.channel.codec import Message
from fencepost.task.channel.task_spec import TaskSpec


@dataclass(frozen=True)
class RunRequest(Message):
    """Asks something about a run."""

    run: str


@dataclass(frozen=True)
class Whereabouts(Message):
    """Where a process that works on a run, or on an epoch, is: `stack` has its outermost call first."""

    run: str
    place: str
    stack: str
    waits_for_kafka: bool


@dataclass(frozen=True)
class SplitRun(Message):
    """One run of one split, or of several together, as one transaction.

    `offset_keys` has a key for each split. With `rows_per_commit` 0 all rows are one transaction, as they always are
    for several splits. `forget`: offset keys to tombstone. `chooses_client`: see TaskSpec.
    `offset`: what is committed for a step of a sequence, which is alone, instead of that it is done.
    """

    run: str
    producer_conf: Mapping[str, Any] = field(repr=False)
    topic: str
    offsets_topic: str
    offset_keys: tuple[bytes, ...]
    transactional_id: str | None
    rows_per_commit: int = 0
    forget: tuple[bytes, ...] = ()
    copies_offsets: bool = False
    chooses_client: bool = False
    offset: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class SplitAdmission(Message):
    """`positions` are the committed offsets of the splits; None for a split without one.

    `headers`: what each record gets that has no `traceparent`.
    """

    is_admitted: bool
    reason: str
    positions: tuple[dict[str, Any] | None, ...]
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class SplitUnchanged(Message):
    """Whether the splits still are as planned."""

    is_unchanged: bool


@dataclass(frozen=True)
class SplitCopies(Message):
    """Offsets that a run asks the worker to copy to its own topic; answered once they are acknowledged there."""

    run: str
    copies: tuple[OffsetCopy, ...]


@dataclass(frozen=True)
class SplitReport(Message):
    """The splits are committed, with a number of rows each, or an earlier run had already done so (`skipped`).

    `commit_s`: how long the last commit took.
    """

    run: str
    rows: tuple[int, ...]
    skipped: bool
    commit_s: float = 0.0


@dataclass(frozen=True)
class SplitExpiry(Message):
    """The broker ended the run's transaction, which was open for longer than its timeout."""

    run: str
    after_s: float


@dataclass(frozen=True)
class TemporaryFailure(Message):
    """The run ended with a passing error (`reason`), such as an unreachable broker or a lost connection."""

    run: str
    reason: str


@dataclass(frozen=True)
class EpochOutput(Message):
    """How executors write the output of an epoch's ranges: each range in a transaction, as a member of a group.

    Each range has its own transactional id, which begins with `transactional_id`. `metadata` is the client's record of
    the membership; `offset_metadata`, by topic, is committed with the offsets. `guard`: the topics to which nothing may
    be written (`OutputGuard` as JSON). `converter`: the class and settings of what executors write values with.
    """

    producer_conf: Mapping[str, Any] = field(repr=False)
    transactional_id: str
    group: str
    metadata: str  # as hexadecimal text
    topic: str
    offset_metadata: Mapping[str, str]
    guard: Mapping[str, Any]
    converter: Mapping[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class EpochReading(Message):
    """What executors need to read an epoch's topics: consumer settings, and where dead letters and output go.

    `registry`: the settings of the converter whose values have schemas in a registry. `headers`: as in
    `SplitAdmission`. `topic_ids`: a topic that has another id now is not read. `led`: the epoch and the node of
    the newest leader that the worker knows, by topic and partition. `leader_epochs` are committed with the output's
    offsets; a partition is named as `topic-0`.
    """

    conf: Mapping[str, Any] = field(repr=False)
    dead_letters: TaskSpec | None = field(default=None, repr=False)
    output: EpochOutput | None = field(default=None, repr=False)
    registry: Mapping[str, Any] | None = field(default=None, repr=False)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    led: Mapping[str, Mapping[str, list[int]]] = field(default_factory=dict)
    leader_epochs: Mapping[str, int] = field(default_factory=dict)
