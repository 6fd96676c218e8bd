"""All that a slot needs to run one start of a task, with the settings of its Kafka clients.

Client settings can be translated only with their values, so the process that looks up the references in them translates
them, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.config.client import combined
from fencepost.config.reference import RawConfig
from fencepost.kafka.setting.client_settings import (
    admin_conf,
    producer_conf,
    range_conf,
    reader_conf,
    sink_conf,
    transactional_conf,
)
from fencepost.kafka.setting.translation import Translated
from fencepost.task.channel.codec import Message

LookUp = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Returns a config with its references replaced. Raises ConfigError or RetriableError."""

_GROUP = "group.id"
_ID = "transactional.id"


@dataclass(frozen=True)
class ClientRecipe(Message):
    """Java's properties of one client, from which librdkafka's are made.

    Attributes:
        kind: the kind of client, a key of `_MAKERS`.
        worker: the properties that the worker's file gives it.
        own: those of the connector, which replace the worker's; they may have references. If they name other brokers,
            nothing that identifies the worker goes there.
        names: the group that it has by default, and its client id, if its kind has them.
        fixed: settings of librdkafka that nobody can change.
        place: the part of a task's spec that has the result.
    """

    kind: str
    worker: Mapping[str, Any] = field(repr=False)
    own: Mapping[str, str] = field(repr=False)
    names: tuple[str, ...] = ()
    fixed: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""

    def translated(self, look_up: LookUp) -> Translated:
        """Return librdkafka's settings. Raises ConfigError, and what `look_up` raises."""
        own = look_up(self.own)
        made = _MAKERS[self.kind](combined(self.worker, own), _names(self.names, own))
        return Translated({**made.conf, **self.fixed}, made.warnings)


def _names(names: tuple[str, ...], own: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of a client whose connector may name another group."""
    return (own.get(_GROUP, "").strip() or names[0], *names[1:]) if names else ()


def without_id(properties: Mapping[str, Any]) -> Translated:
    """Return the settings of a transactional producer without its id."""
    found = transactional_conf(properties, "")
    return Translated({key: value for key, value in found.conf.items() if key != _ID}, found.warnings)


_MAKERS: Mapping[str, Callable[[Mapping[str, Any], tuple[str, ...]], Translated]] = {
    "producer": lambda properties, _: producer_conf(properties),
    "transactional": lambda properties, _: without_id(properties),
    "admin": lambda properties, _: admin_conf(properties),
    "reader": lambda properties, _: reader_conf(properties),
    "sink": lambda properties, names: sink_conf(properties, names[0], names[1]),
    "range": lambda properties, names: range_conf(properties, names[0]),
}


@dataclass(frozen=True)
class CollectorSpec(Message):
    """A collector that takes OTLP over HTTP. `endpoint` is the full URL, `headers` are `name=value` with commas."""

    endpoint: str
    headers: str = field(default="", repr=False)  # they may hold a key
    certificate: str = ""
    timeout_ms: int = 10_000


@dataclass(frozen=True)
class TracingSpec(Message):
    """The worker's settings of OpenTelemetry (`fencepost.config.tracing`)."""

    collector: CollectorSpec
    service_name: str = "fencepost"
    resource: Mapping[str, str] = field(default_factory=dict)
    sampler: str = "parentbased_always_on"
    sampler_arg: float = 1.0
    queue_size: int = 2_048
    delay_ms: int = 5_000


PRODUCER, ADMIN = "output.producer_conf", "output.admin_conf"
CONSUMER, READER, READER_ADMIN = "input.consumer_conf", "input.reader_conf", "input.reader_admin_conf"
"""The places of client settings in a spec."""


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
    ledger_topic: str = ""  # where each transaction says what it has written


@dataclass(frozen=True)
class InputSpec(Message):
    """The topics that a sink or a stream reads; empty for a source."""

    consumer_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)
    topics: tuple[str, ...] = ()  # unless `topics_regex` selects them
    topics_regex: str = ""
    most_records: int | None = None  # in a batch, if the user has set it (`max.poll.records`)
    resend_topic: str = ""  # of a sink: the additional topic through which it receives resent dead letters
    foreign_ids: tuple[str, ...] = ()  # of a stream: prefixes of transactional ids that it never fences by name
    reader_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)  # for executors that read epochs
    reader_admin_conf: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of the cluster with the epochs

    @property
    def begins_at_the_end(self) -> bool:
        """Say whether partitions of which the group has no offset begin at the ends of their logs."""
        return bool(self.consumer_conf.get("auto.offset.reset") == "latest")


@dataclass(frozen=True)
class DeadLetterSpec(Message):
    """Where records that could not be processed go, if there is a topic for them."""

    topic: str = ""
    replication: int = 3
    headers: bool = False


@dataclass(frozen=True)
class References(Message):
    """The parts of a spec before their references to config providers are looked up.

    Attributes:
        providers: the worker's settings of providers, `config.providers` and below.
        connector_config: the keys of the connector's own config whose values have references.
        task_config: the same of the task's config.
        clients: the settings of Kafka clients; their `place` is that of `TaskSpec`.
        ttl_ms: how long the values are valid that the worker looked up; None if they do not expire.
        values: what was looked up by the process that runs the task; they do not travel.
    """

    providers: Mapping[str, str] = field(repr=False)
    connector_config: RawConfig = field(repr=False)
    task_config: RawConfig = field(repr=False)
    clients: tuple[ClientRecipe, ...] = ()
    ttl_ms: int | None = None
    values: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class ClosedSpec(Message):
    """The names of the `ClosedTopics` of the clusters that a task reads and writes."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LimitSpec(Message):
    """Limits of the worker's file: files that connectors may use, as in `FileLimit`, and plug-ins that they may not."""

    allowed_files: tuple[str, ...] | None = None
    refused_files: tuple[str, ...] = ()
    disabled_plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class LookUpSpec(Message):
    """Where a task finds plug-ins, how it runs Java's, where its spans go, what its configs refer to, and what is
    closed to it.

    `tracing` and `references` are None if it is nothing.
    """

    plugin_path: tuple[str, ...] = ()
    references: References | None = None
    java_options: tuple[str, ...] = ()
    tracing: TracingSpec | None = None
    closed: ClosedSpec = ClosedSpec()
    limits: LimitSpec = LimitSpec()


@dataclass(frozen=True)
class RunSpec(Message):
    """How a task runs, according to its connector's config and its own history."""

    is_dedicated: bool = False  # each task has a slot of its own
    progress_timeout_ms: int = 20_000  # how long a call may take until the task stands still; 0: forever
    fails_when_it_hangs: bool = False
    is_alone: bool = False  # in a slot of its own for a time, because its slots have died


@dataclass(frozen=True)
class TaskSpec(Message):
    """One start of a task. `incarnation` identifies this start only; `generation` is the task generation.

    A spec that travels has references instead of the values that they refer to (`unresolved`); an executor looks them
    up with its own files and environment (`fencepost.task.start.runner`).
    """

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
    look_up: LookUpSpec = LookUpSpec()
    target_state: str = "STARTED"
    task_count: int = 1
    run: RunSpec = RunSpec()

    @property
    def id(self) -> str:
        return f"{self.connector}-{self.task}"

    @property
    def is_sink(self) -> bool:
        references = self.look_up.references
        recipes = () if references is None else references.clients
        return bool(self.input.consumer_conf) or any(one.place == CONSUMER for one in recipes)

    @property
    def is_stream(self) -> bool:
        """Say whether the task reads topics and writes to topics, in transactions."""
        return self.is_sink and self.output.transactional_id is not None

    @property
    def is_exactly_once(self) -> bool:
        return self.output.transactional_id is not None

    def unresolved(self) -> "TaskSpec":
        """Return the spec with references in place of values (E11)."""
        references = self.look_up.references
        if references is None:
            return self
        return replace(
            self,
            connector_config={**self.connector_config, **references.connector_config},
            task_config={**self.task_config, **references.task_config},
            look_up=replace(self.look_up, references=replace(references, values=())),
            output=replace(self.output, producer_conf={}, admin_conf={}),
            input=replace(self.input, consumer_conf={}, reader_conf={}, reader_admin_conf={}),
        )
