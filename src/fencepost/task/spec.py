"""The channel's language: the paths, what goes over each in both directions, and the states of a task's start.

A slot, or the executor of a split, asks; the worker answers. All of it travels as JSON. Each message knows both ways:
`to_json` gives what is sent, `from_json` reads it; what a newer end adds is passed over.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from fencepost.config.raw import RawConfig
from fencepost.storage.offset_copies import OffsetCopy


class Path(StrEnum):
    """Where a message goes. In brackets: what is asked with, and what is answered."""

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
    ABANDONED = "ABANDONED"  # it found that it is not, or no longer, the one to run: not a failure

    @property
    def is_over(self) -> bool:
        """Say whether a start in this state will report nothing more."""
        return self in _OVER


_OVER = frozenset({RunState.FAILED, RunState.STOPPED, RunState.ABANDONED})


class Verb(StrEnum):
    """What a worker tells a slot to do: LEAVE is for the slot, all else for one start of a task."""

    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    ABANDON = "abandon"
    LEAVE = "leave"


@dataclass(frozen=True)
class TaskSpec:
    """One start of a task. `incarnation` names this start and no other; `generation` is the task generation."""

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
    batch_bytes: int | None = None  # the producer's batch.size where the user has set it
    chooses_client: bool = False  # nobody has said which client writes the transactions: see `client_choice`
    copies_offsets: bool = False
    has_offsets_in_group: bool = False  # of the cluster that it writes to
    runs_alone: bool = False  # in a slot of its own, for now: its slots have died
    consumer_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of a sink; of a source there is none
    topics: tuple[str, ...] = ()  # that a sink reads, unless a pattern says which
    topics_regex: str = ""
    most_records: int = 500  # of a batch of a sink
    reader_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)  # by which executors read epochs
    reader_admin_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)  # where epochs are read from
    dead_letters_topic: str = ""
    dead_letters_replication: int = 3
    dead_letters_headers: bool = False
    resend_topic: str = ""  # of a sink: what it reads besides, where its dead letters are sent again
    foreign_ids: tuple[str, ...] = ()  # of a stream: how transactional ids begin that are fenced for no name

    @property
    def id(self) -> str:
        return f"{self.connector}-{self.task}"

    @property
    def is_sink(self) -> bool:
        return bool(self.consumer_conf)

    @property
    def is_stream(self) -> bool:
        """Say whether it writes to topics what it reads there, in transactions."""
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
    """What a slot says of one incarnation; counters are totals since it started.

    `figures` is what the task itself has measured (`SourceTask.figures`), as JSON: there may be thousands, which are
    copied at once so, and looked into only where somebody asks for metrics.
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


# Between a slot and its worker. `attempt` tells the processes of a slot apart.


@dataclass(frozen=True)
class Registration:
    """The process of a slot has begun."""

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
    """A slot asks what to do; it has carried out what is numbered up to `ack`. Its heartbeat."""

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
    """One thing to do, in the order of `seq`. START has a `spec`, what is about a start that runs its `incarnation`."""

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
    """What a slot has not carried out yet."""

    directives: tuple[Directive, ...]

    def to_json(self) -> dict[str, Any]:
        return {"directives": [one.to_json() for one in self.directives]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Directives":
        return cls(tuple(Directive.from_json(one) for one in data["directives"]))


@dataclass(frozen=True)
class Reports:
    """What the starts in a slot do."""

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
    """A start has initialised its producer: is it still the one to run?

    Unless it `wants_offsets`, which takes until all open transactions of the offsets topic have ended, it knows them.
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

    `spellings`: source partitions that the offsets topic knows by other key bytes than ours, with these. `failure`
    is what keeps the worker from admitting any start of the task until somebody acts.
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
    """Offsets that a start has the worker copy to its own topic; answered when they are acknowledged there."""

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


# Between the executor of a run of splits and the worker. `run` names the run, and tells nothing else.


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

    `offset_keys` has a key for each of them. `rows_per_commit` 0: all rows in one transaction, as always with several.
    `forget`: offset keys to tombstone. `chooses_client`: as of TaskSpec.
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
    """`positions` are the committed offsets of the splits, None where there is none."""

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
    """How executors write what is made of an epoch's ranges, each in a transaction, in the name of a group's member.

    Each range has a transactional id of its own, which begins with `transactional_id`. `metadata` is what the client
    says of the membership; `note` is kept with the offsets. `read`: the topics that are read, to which nothing may be
    written, as `ReadTopics` has them in JSON.
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
    """How executors get at the topics of an epoch, the settings of a consumer, and where its dead letters go."""

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
    """Offsets that a run has the worker copy to its own topic; answered when they are acknowledged there."""

    run: str
    copies: tuple[OffsetCopy, ...]

    def to_json(self) -> dict[str, Any]:
        return {"run": self.run, "copies": [one.to_json() for one in self.copies]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SplitCopies":
        return cls(data["run"], _copies(data))


@dataclass(frozen=True)
class SplitReport:
    """The splits are committed with so many rows each, or an earlier run had done that (`skipped`)."""

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
    """The broker has ended the run's transaction, which was open for longer than it may be."""

    run: str
    after_s: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SplitExpiry":
        return cls(data["run"], float(data["after_s"]))


@dataclass(frozen=True)
class SplitTrouble:
    """The run ended for what passes: a broker that is away, a connection that was lost. `reason` says which."""

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
    """Return what is a field of the message; a newer end may send more."""
    names = {one.name for one in fields(cls)}
    return {key: value for key, value in data.items() if key in names}
