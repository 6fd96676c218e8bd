"""The protocol of the channel: its paths, the messages on each in both directions, and the states of a task's start.

A slot, or the executor of a split, sends a request; the worker answers. Everything is JSON. Each message has both
directions: `to_json` returns what is sent, and `from_json` reads it and ignores fields that a newer end adds.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from fencepost.config.raw import RawConfig
from fencepost.storage.offset_copies import OffsetCopy


class Path(StrEnum):
    """Where a message goes. In brackets: the type of the request, and of the answer."""

    SLOT_REGISTER = "/slot/register"  # (Registration, nothing)
    SLOT_DIRECTIVES = "/slot/directives"  # (DirectivesRequest, Directives)
    SLOT_REPORT = "/slot/report"  # (Reports, nothing)
    TASK_ADMIT = "/task/admit"  # (AdmissionRequest, Admission)
    TASK_COPY = "/task/copy"  # (TaskCopies, nothing)
    SPLIT_SPEC = "/split/spec"  # (RunRequest, SplitRun)
    SPLIT_ADMIT = "/split/admit"  # (RunRequest, SplitAdmission)
    SPLIT_UNCHANGED = "/split/unchanged"  # (RunRequest, SplitUnchanged)
    SPLIT_COPY = "/split/copy"  # (SplitCopies, nothing)
    SPLIT_REPORT = "/split/report"  # (SplitReport, nothing)
    SPLIT_EXPIRED = "/split/expired"  # (SplitExpiry, nothing)
    SPLIT_TROUBLE = "/split/trouble"  # (SplitTrouble, nothing)
    EPOCH_READING = "/epoch/reading"  # (RunRequest, EpochReading)


class RunState(StrEnum):
    """What a task in a slot is doing."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    ABANDONED = "ABANDONED"  # the task is not, or is no longer, the one to run; this is not a failure

    @property
    def is_over(self) -> bool:
        """Say whether a start in this state will report nothing more."""
        return self in _OVER


_OVER = frozenset({RunState.FAILED, RunState.STOPPED, RunState.ABANDONED})


class Verb(StrEnum):
    """What a worker asks a slot to do: LEAVE is for the slot, all others are for one start of a task."""

    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    ABANDON = "abandon"
    LEAVE = "leave"


@dataclass(frozen=True)
class TaskSpec:
    """One start of a task. `incarnation` identifies this start only; `generation` is the task generation."""

    connector: str
    task: int
    generation: int
    incarnation: str
    connector_config: RawConfig = field(repr=False)  # may hold a user's secrets (E11)
    task_config: RawConfig = field(repr=False)
    producer_conf: Mapping[str, Any] = field(repr=False)
    offsets_topic: str
    admin_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)
    group_id: str = ""
    task_count: int = 1
    transactional_id: str | None = None
    target_state: str = "STARTED"
    boundary: str = "poll"
    boundary_interval_ms: int = 60_000
    offset_flush_interval_ms: int = 60_000
    offset_flush_timeout_ms: int = 5_000
    plugin_path: tuple[str, ...] = ()
    topic_creation_enabled: bool = True
    lanes: int = 2
    batch_bytes: int | None = None  # the producer's batch.size if the user has set it
    chooses_client: bool = False  # the config does not choose the client for transactions: see `client_choice`
    copies_offsets: bool = False
    has_offsets_in_group: bool = False  # in a group of the cluster that it writes to
    runs_alone: bool = False  # in a slot of its own for a time, because its slots have died
    consumer_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of a sink or stream; else empty
    topics: tuple[str, ...] = ()  # those that a sink reads, unless `topics_regex` selects them
    topics_regex: str = ""
    most_records: int = 500  # in a batch of a sink
    reader_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)  # for executors that read epochs
    reader_admin_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of the cluster with the epochs
    dead_letters_topic: str = ""
    dead_letters_replication: int = 3
    dead_letters_headers: bool = False
    resend_topic: str = ""  # of a sink: the additional topic through which it receives resent dead letters
    foreign_ids: tuple[str, ...] = ()  # of a stream: prefixes of transactional ids that it never fences by name

    @property
    def id(self) -> str:
        return f"{self.connector}-{self.task}"

    @property
    def is_sink(self) -> bool:
        return bool(self.consumer_conf)

    @property
    def is_stream(self) -> bool:
        """Say whether the task reads topics and writes to topics, in transactions."""
        return self.is_sink and self.transactional_id is not None

    @property
    def is_exactly_once(self) -> bool:
        return self.transactional_id is not None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TaskSpec":
        values = _known(cls, data)
        values["plugin_path"] = tuple(values.get("plugin_path", ()))
        values["topics"] = tuple(values.get("topics", ()))
        values["foreign_ids"] = tuple(values.get("foreign_ids", ()))
        return cls(**values)


@dataclass(frozen=True)
class TaskReport:
    """What a slot reports about one incarnation; counters are totals since its start.

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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TaskReport":
        values = _known(cls, data)
        return cls(**{**values, "state": RunState(data["state"]), "topics": tuple(data.get("topics", ()))})


# Between a slot and its worker. `attempt` distinguishes the processes of a slot.


@dataclass(frozen=True)
class Registration:
    """The process of a slot has started."""

    slot: str
    attempt: str
    pid: int | None = None
    host: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Registration":
        return cls(**_known(cls, data))


@dataclass(frozen=True)
class DirectivesRequest:
    """A slot asks for directives, having carried out those up to number `ack`. This is also its heartbeat."""

    slot: str
    attempt: str
    ack: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "DirectivesRequest":
        return cls(**_known(cls, data))


@dataclass(frozen=True)
class Directive:
    """One thing to do, in the order of `seq`. START has a `spec`; other verbs for a task have its `incarnation`."""

    seq: int
    verb: Verb
    incarnation: str = ""
    spec: TaskSpec | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        spec = None if self.spec is None else self.spec.to_json()
        return {"seq": self.seq, "verb": self.verb, "incarnation": self.incarnation, "spec": spec}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Directive":
        spec = data.get("spec")
        parsed = None if spec is None else TaskSpec.from_json(spec)
        return cls(data["seq"], Verb(data["verb"]), data.get("incarnation", ""), parsed)


@dataclass(frozen=True)
class Directives:
    """The directives that a slot has not carried out yet."""

    directives: tuple[Directive, ...]

    def to_json(self) -> dict[str, Any]:
        return {"directives": [one.to_json() for one in self.directives]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Directives":
        return cls(tuple(Directive.from_json(one) for one in data["directives"]))


@dataclass(frozen=True)
class Reports:
    """What the starts in a slot are doing."""

    slot: str
    attempt: str
    reports: tuple[TaskReport, ...]

    def to_json(self) -> dict[str, Any]:
        return {"slot": self.slot, "attempt": self.attempt, "reports": [one.to_json() for one in self.reports]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Reports":
        return cls(data["slot"], data["attempt"], tuple(TaskReport.from_json(one) for one in data["reports"]))


@dataclass(frozen=True)
class AdmissionRequest:
    """A start has initialised its producer, and asks whether it is still the one to run.

    `wants_offsets` asks for the committed offsets, too. That takes until all open transactions of the offsets topic
    have ended, so a start that knows them does not ask.
    """

    connector: str
    task: int
    generation: int
    incarnation: str
    wants_offsets: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "AdmissionRequest":
        return cls(**_known(cls, data))


@dataclass(frozen=True)
class Admission:
    """The worker's answer to a task that has initialised its producer (steps 6 and 7 of docs/architecture.md).

    `spellings`: source partitions whose key bytes in the offsets topic differ from ours, with those bytes. `failure`
    is an error that keeps the worker from admitting any start of the task until a user acts.
    """

    is_admitted: bool
    reason: str = ""
    offsets: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = ()
    spellings: tuple[tuple[dict[str, Any], str], ...] = ()
    failure: str = ""

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Admission":
        pairs = tuple((dict(p), dict(o)) for p, o in data.get("offsets", ()))
        spellings = tuple((dict(p), str(key)) for p, key in data.get("spellings", ()))
        reason, failure = str(data.get("reason", "")), str(data.get("failure", ""))
        return cls(bool(data["is_admitted"]), reason, pairs, spellings, failure)


@dataclass(frozen=True)
class TaskCopies:
    """Offsets that a start asks the worker to copy to its own topic; answered once they are acknowledged there."""

    connector: str
    task: int
    incarnation: str
    copies: tuple[OffsetCopy, ...]

    def to_json(self) -> dict[str, Any]:
        start = {"connector": self.connector, "task": self.task, "incarnation": self.incarnation}
        return {**start, "copies": [one.to_json() for one in self.copies]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TaskCopies":
        return cls(data["connector"], data["task"], data["incarnation"], _copies(data))


# Between the executor of a run of splits and the worker. `run` is the run's name, without further meaning.


@dataclass(frozen=True)
class RunRequest:
    """Asks something about a run."""

    run: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RunRequest":
        return cls(data["run"])


@dataclass(frozen=True)
class SplitRun:
    """One run of one split, or of several together, as one transaction.

    `offset_keys` has a key for each split. With `rows_per_commit` 0 all rows are one transaction, as they always are
    for several splits. `forget`: offset keys to tombstone. `chooses_client`: see TaskSpec.
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

    def to_json(self) -> dict[str, Any]:
        keys = {name: [key.decode() for key in getattr(self, name)] for name in ("offset_keys", "forget")}
        return {**vars(self), "producer_conf": dict(self.producer_conf), **keys}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SplitRun":
        keys = {name: tuple(key.encode() for key in data.get(name, ())) for name in ("offset_keys", "forget")}
        return cls(**{**_known(cls, data), **keys})


@dataclass(frozen=True)
class SplitAdmission:
    """`positions` are the committed offsets of the splits; None for a split without one."""

    is_admitted: bool
    reason: str
    positions: tuple[dict[str, Any] | None, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SplitAdmission":
        return cls(bool(data["is_admitted"]), str(data["reason"]), tuple(data["positions"]))


@dataclass(frozen=True)
class EpochOutput:
    """How executors write the output of an epoch's ranges: each range in a transaction, as a member of a group.

    Each range has its own transactional id, which begins with `transactional_id`. `metadata` is the client's record of
    the membership; `note` is committed with the offsets. `read`: the topics that are read (`ReadTopics` as JSON), to
    which nothing may be written.
    """

    producer_conf: Mapping[str, Any] = field(repr=False)
    transactional_id: str
    group: str
    metadata: bytes
    topic: str
    note: str
    read: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "producer_conf": dict(self.producer_conf), "metadata": self.metadata.hex()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "EpochOutput":
        return cls(**{**data, "metadata": bytes.fromhex(data["metadata"])})


@dataclass(frozen=True)
class EpochReading:
    """What executors need to read an epoch's topics: consumer settings, and where dead letters and output go."""

    conf: Mapping[str, Any] = field(repr=False)
    letters: TaskSpec | None = field(default=None, repr=False)
    output: EpochOutput | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "conf": dict(self.conf),
            "letters": None if self.letters is None else self.letters.to_json(),
            "output": None if self.output is None else self.output.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "EpochReading":
        letters, output = data.get("letters"), data.get("output")
        return cls(
            dict(data["conf"]),
            None if letters is None else TaskSpec.from_json(letters),
            None if output is None else EpochOutput.from_json(output),
        )


@dataclass(frozen=True)
class SplitUnchanged:
    """Whether the splits still are what was planned."""

    is_unchanged: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SplitUnchanged":
        return cls(bool(data["is_unchanged"]))


@dataclass(frozen=True)
class SplitCopies:
    """Offsets that a run asks the worker to copy to its own topic; answered once they are acknowledged there."""

    run: str
    copies: tuple[OffsetCopy, ...]

    def to_json(self) -> dict[str, Any]:
        return {"run": self.run, "copies": [one.to_json() for one in self.copies]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SplitCopies":
        return cls(data["run"], _copies(data))


@dataclass(frozen=True)
class SplitReport:
    """The splits are committed, with a number of rows each, or an earlier run had already done so (`skipped`)."""

    run: str
    rows: tuple[int, ...]
    skipped: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SplitReport":
        return cls(data["run"], tuple(data["rows"]), bool(data["skipped"]))


@dataclass(frozen=True)
class SplitExpiry:
    """The broker ended the run's transaction, which was open for longer than its timeout."""

    run: str
    after_s: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SplitExpiry":
        return cls(data["run"], float(data["after_s"]))


@dataclass(frozen=True)
class SplitTrouble:
    """The run ended with a passing error (`reason`), such as an unreachable broker or a lost connection."""

    run: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SplitTrouble":
        return cls(data["run"], str(data["reason"]))


def _copies(data: Mapping[str, Any]) -> tuple[OffsetCopy, ...]:
    return tuple(OffsetCopy.from_json(one) for one in data["copies"])


def _known(cls: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries that are fields of the message; a newer end may send more."""
    names = {one.name for one in fields(cls)}
    return {key: value for key, value in data.items() if key in names}
