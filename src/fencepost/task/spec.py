"""What a worker tells a slot about a task, and what a slot reports back. All of it travels as JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any

from fencepost.config.raw import RawConfig


class TargetState(Enum):
    """What the user wants of a connector."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class RunState(Enum):
    """What a task in a slot is doing."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    ABANDONED = "ABANDONED"  # it found that it is not, or no longer, the one to run: not a failure


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
    target_state: str = TargetState.STARTED.value
    boundary: str = "poll"
    boundary_interval_ms: int = 60_000
    offset_flush_interval_ms: int = 60_000
    offset_flush_timeout_ms: int = 5_000
    plugin_path: tuple[str, ...] = ()
    topic_creation_enabled: bool = True
    lanes: int = 2
    batch_bytes: int | None = None  # the producer's batch.size where the user has set it
    copies_offsets: bool = False
    runs_alone: bool = False  # in a slot of its own, for now: its slots have died

    @property
    def id(self) -> str:
        return f"{self.connector}-{self.task}"

    @property
    def is_exactly_once(self) -> bool:
        return self.transactional_id is not None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TaskSpec":
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in data.items() if k in known}
        values["plugin_path"] = tuple(values.get("plugin_path", ()))
        return cls(**values)


@dataclass(frozen=True)
class TaskReport:
    """What a slot says of one incarnation; counters are totals since it started."""

    connector: str
    task: int
    incarnation: str
    state: str
    trace: str | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    topics: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Admission":
        pairs = tuple((dict(p), dict(o)) for p, o in data.get("offsets", ()))
        spellings = tuple((dict(p), str(key)) for p, key in data.get("spellings", ()))
        reason, failure = str(data.get("reason", "")), str(data.get("failure", ""))
        return cls(bool(data["is_admitted"]), reason, pairs, spellings, failure)
