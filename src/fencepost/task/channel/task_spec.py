"""All that a slot needs to run one start of a task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.config.raw import RawConfig
from fencepost.task.channel.codec import Message


@dataclass(frozen=True)
class OutputSpec(Message):
    """Where a task writes: a source or a stream its records, a sink only its dead letters."""

    producer_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)
    offsets_topic: str = ""
    transactional_id: str | None = None  # None: at least once
    admin_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)
    topic_creation_enabled: bool = True
    chooses_client: bool = False  # the config does not choose the client for transactions: see `client_choice`
    copies_offsets: bool = False
    has_offsets_in_group: bool = False  # in a group of the cluster that it writes to


@dataclass(frozen=True)
class CommitSpec(Message):
    """When a task commits, and with how many producers."""

    boundary: str = "poll"
    boundary_interval_ms: int = 60_000
    offset_flush_interval_ms: int = 60_000
    offset_flush_timeout_ms: int = 5_000
    lanes: int = 2
    batch_bytes: int | None = None  # the producer's batch.size if the user has set it


@dataclass(frozen=True)
class InputSpec(Message):
    """What a sink or a stream reads; empty for a source."""

    consumer_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)
    topics: tuple[str, ...] = ()  # unless `topics_regex` selects them
    topics_regex: str = ""
    most_records: int = 500  # in a batch
    resend_topic: str = ""  # of a sink: the additional topic through which it receives resent dead letters
    foreign_ids: tuple[str, ...] = ()  # of a stream: prefixes of transactional ids that it never fences by name
    reader_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)  # for executors that read epochs
    reader_admin_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of the cluster with the epochs


@dataclass(frozen=True)
class DeadLetterSpec(Message):
    """Where records that could not be processed go, if there is a topic for them."""

    topic: str = ""
    replication: int = 3
    headers: bool = False


@dataclass(frozen=True)
class TaskSpec(Message):
    """One start of a task. `incarnation` identifies this start only; `generation` is the task generation."""

    connector: str
    task: int
    generation: int
    incarnation: str
    connector_config: RawConfig = field(repr=False)  # may hold a user's secrets (E11)
    task_config: RawConfig = field(repr=False)
    output: OutputSpec = OutputSpec()
    commits: CommitSpec = CommitSpec()
    input: InputSpec = InputSpec()
    dead_letters: DeadLetterSpec = DeadLetterSpec()
    plugin_path: tuple[str, ...] = ()
    target_state: str = "STARTED"
    task_count: int = 1
    runs_alone: bool = False  # in a slot of its own for a time, because its slots have died

    @property
    def id(self) -> str:
        return f"{self.connector}-{self.task}"

    @property
    def is_sink(self) -> bool:
        return bool(self.input.consumer_conf)

    @property
    def is_stream(self) -> bool:
        """Say whether the task reads topics and writes to topics, in transactions."""
        return self.is_sink and self.output.transactional_id is not None

    @property
    def is_exactly_once(self) -> bool:
        return self.output.transactional_id is not None
