"""The settings of a connector's config that the framework reads; all others belong to the connector's own class.

Names, groups, orders and types are those that Kafka Connect's REST API shows.

The output side of a stream: converters and transforms under the names of a source's, with the prefix `output.`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from fencepost.config.check import at_least, between, each, no_control_chars, one_of, topic_name, unique, unset_or
from fencepost.config.setting import HIGH, LOW, MEDIUM, Config, Setting, Type, Width, setting
from fencepost.config.topic_creation import DEFAULT_GROUP, TopicCreationGroup, topic_creation_groups
from fencepost.config.version import version_requirement

OUTPUT = "output."
CONVERTERS = ("key.converter", "value.converter", "header.converter")


def output_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a stream's output settings, without the prefix.

    A converter that is not set is the input's, with its settings.
    """
    own = {key[len(OUTPUT) :]: value for key, value in properties.items() if key.startswith(OUTPUT)}
    for name in CONVERTERS:
        if name not in own:
            own |= {key: value for key, value in properties.items() if key == name or key.startswith(f"{name}.")}
    return own


class TransactionBoundary(Enum):
    """Each batch of `poll`, a time, or what the task says."""

    POLL = "poll"
    INTERVAL = "interval"
    CONNECTOR = "connector"


def interval_of(given_ms: int | None, flush_interval_ms: int, timeout_ms: int) -> int:
    """Return after how many milliseconds a transaction with `transaction.boundary=interval` ends.

    Where nobody set it that is `offset.flush.interval.ms`, as in Kafka Connect, but at most half of
    `transaction.timeout.ms`: both are a minute by default, and the broker would end each transaction first.
    """
    return given_ms if given_ms is not None else min(flush_interval_ms, timeout_ms // 2)


class ExactlyOnceDemand(Enum):
    """Whether a connector that cannot be exactly-once may run."""

    REQUESTED = "requested"
    REQUIRED = "required"


_COMMON = "Common"
TRANSFORMS_GROUP = "Transforms"
PREDICATES_GROUP = "Predicates"
PLUGIN_VERSION = "plugin.version"
"""The key below that of a converter, or below the alias of a transform or predicate, that asks for its version."""

VERSIONS = "A range ([1.0,2.0), [1.0,)), exactly one (1.0 or [1.0]), or latest; unset: the newest that is installed."
_ERRORS = "Error Handling"
_TOPIC_CREATION = "Topic Creation"
_EXACTLY_ONCE = "Exactly Once Support"
_OFFSETS_TOPIC = "offsets.topic"
_OUTPUT = "Output"


@dataclass(frozen=True)
class PredicateSpec:
    """A predicate in a config."""

    alias: str
    type: str
    properties: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True)
class TransformSpec:
    """A transform in a config; `predicate` is None if it applies to every record."""

    alias: str
    type: str
    properties: Mapping[str, object] = field(repr=False)
    predicate: PredicateSpec | None
    negate: bool


class RestartChoice(Config):
    """What happens to a connector or task that has failed."""

    restart_enabled: bool = setting(
        "errors.restart.enabled", default=False, importance=MEDIUM,
        doc="Whether the connector and its tasks are restarted by themselves when they have failed.",
    )  # fmt: skip
    restart_backoff_initial_ms: int = setting(
        "errors.restart.backoff.initial.ms", type=Type.LONG, default=1_000, check=at_least(1), importance=LOW,
        doc="The pause before the first such restart; each further one in a row waits twice as long, give or take a "
        "fifth.",
    )  # fmt: skip
    restart_backoff_max_ms: int = setting(
        "errors.restart.backoff.max.ms", type=Type.LONG, default=300_000, check=at_least(1), importance=LOW,
        doc="The longest of these pauses, but for that fifth.",
    )  # fmt: skip
    restart_attempts: int = setting(
        "errors.restart.attempts", type=Type.INT, default=-1, check=at_least(-1), importance=LOW,
        doc="How many restarts in a row are made before a failure stays; -1: as many as it takes.",
    )  # fmt: skip
    restart_window_ms: int = setting(
        "errors.restart.window.ms", type=Type.LONG, default=600_000, check=at_least(0), importance=LOW,
        doc="After a connector or task has run for this long, its restarts are counted from 0 again.",
    )  # fmt: skip


class RuntimeChoice(RestartChoice):
    """Settings of a connector that only Fencepost has; Kafka Connect's `validate` does not list them."""

    is_dedicated: bool = setting(
        "slot.dedicated", default=False, importance=LOW,
        doc="Whether each task gets a slot, that is a Python process on an executor, of its own.",
    )  # fmt: skip
    transaction_lanes: int = setting(
        "transaction.lanes", type=Type.INT, default=2, check=between(1, 2), importance=LOW,
        doc="How many producers a task may use in turns. With two, a task under load sends the next transaction while "
        "the last one commits; the second has the transactional id of the task with `#1` behind it.",
    )  # fmt: skip
    producer_client: str | None = setting(
        "producer.client", type=Type.STRING, default=None, check=one_of("auto", "batch", "librdkafka"), importance=LOW,
        doc="Which client writes the transactions of a source: librdkafka, or one that sends batches and repeats no "
        "request, and with which a mirror copies whole batches. With auto it is the latter, if it has all settings, "
        "for columns that transforms and converters keep (lines of files), and for batches if nothing looks inside "
        "records (mirrors). Without, what the worker's file says under the same key, and otherwise auto.",
    )  # fmt: skip
    ledger_topic: str | None = setting(
        "ledger.topic", type=Type.STRING, default=None, importance=LOW,
        doc="A topic in which each transaction of a source says how many records it has written to each partition, "
        "with digests of them, for `fencepost audit`; created if missing. It needs exactly-once and the batch client. "
        "Empty: no ledger. Without, what the worker's file says under the same key, if the source can have a ledger.",
    )  # fmt: skip
    progress_timeout_ms: int = setting(
        "progress.timeout.ms", type=Type.LONG, default=20_000, check=at_least(0), importance=LOW,
        doc="After how long a task that is inside one call (of a poll, a put, a transform, a request to Kafka) is said "
        "to stand still: its status then has the stack of its thread, and of Java's. 0: never. A DataFrame task moves "
        "as long as the figures of its Spark jobs change, which takes up to 15 s to see, or Spark's driver works for "
        "it; one whose jobs wait for executors is said to do so, and does not stand still.",
    )  # fmt: skip
    progress_timeout_action: str = setting(
        "progress.timeout.action", type=Type.STRING, default="report", check=one_of("report", "fail"), importance=LOW,
        doc="What follows when a task stands still. With report, its status says so until it moves again. With fail, "
        "it fails, unless it waits for Kafka, and errors.restart.enabled decides whether it is started again; what "
        "else runs in its slot moves to another one.",
    )  # fmt: skip


class ConnectorChoice(Config):
    """Which connector runs, and with how many tasks."""

    name: str = setting(
        "name", check=no_control_chars(), importance=HIGH, group=_COMMON, order=1, width=Width.MEDIUM,
        display_name="Connector name", doc="The name of the connector, unique in its cluster.",
    )  # fmt: skip
    connector_class: str = setting(
        "connector.class", importance=HIGH, group=_COMMON, order=2, width=Width.LONG, display_name="Connector class",
        doc="The connector to run: its full name, its class name alone, or that without Connector at its end.",
    )  # fmt: skip
    connector_version: str | None = setting(
        "connector.plugin.version", default=None, check=version_requirement(), importance=MEDIUM, group=_COMMON,
        order=3, width=Width.MEDIUM, display_name="Connector version",
        doc=f"The version of the connector. {VERSIONS}",
    )  # fmt: skip
    tasks_max: int = setting(
        "tasks.max", type=Type.INT, default=1, check=at_least(1), importance=HIGH, group=_COMMON, order=4,
        width=Width.SHORT, display_name="Tasks max", doc="How many tasks the connector may have.",
    )  # fmt: skip
    tasks_max_enforce: bool = setting(
        "tasks.max.enforce", default=True, importance=LOW, group=_COMMON, order=5, width=Width.SHORT,
        display_name="Enforce tasks max", doc="(Deprecated) Whether a connector that makes more tasks fails.",
    )  # fmt: skip


class ConverterChoice(ConnectorChoice):
    """Which converters a connector's records go through."""

    key_converter: str | None = setting(
        "key.converter", default=None, type=Type.CLASS, importance=LOW, group=_COMMON, order=6, width=Width.SHORT,
        display_name="Key converter class", doc="Converts keys; unset: the worker's converter.",
    )  # fmt: skip
    key_converter_version: str | None = setting(
        f"key.converter.{PLUGIN_VERSION}", default=None, check=version_requirement(), importance=LOW, group=_COMMON,
        order=7, width=Width.SHORT, display_name="Key converter version", doc="The version of that converter.",
    )  # fmt: skip
    value_converter: str | None = setting(
        "value.converter", default=None, type=Type.CLASS, importance=LOW, group=_COMMON, order=8, width=Width.SHORT,
        display_name="Value converter class", doc="Converts values; unset: the worker's converter.",
    )  # fmt: skip
    value_converter_version: str | None = setting(
        f"value.converter.{PLUGIN_VERSION}", default=None, check=version_requirement(), importance=LOW, group=_COMMON,
        order=9, width=Width.SHORT, display_name="Value converter version", doc="The version of that converter.",
    )  # fmt: skip
    header_converter: str | None = setting(
        "header.converter", default=None, type=Type.CLASS, importance=LOW, group=_COMMON, order=10, width=Width.SHORT,
        display_name="Header converter class", doc="Converts the values of headers; unset: the worker's converter.",
    )  # fmt: skip
    header_converter_version: str | None = setting(
        f"header.converter.{PLUGIN_VERSION}", default=None, check=version_requirement(), importance=LOW, group=_COMMON,
        order=11, width=Width.SHORT, display_name="Header converter version", doc="The version of that converter.",
    )  # fmt: skip


class ConnectorConfig(ConverterChoice):
    """The settings that all connectors have in common."""

    transforms: list[str] = setting(
        "transforms", default=[], check=unique("unique transformation aliases"), importance=LOW,
        group=TRANSFORMS_GROUP, order=12, width=Width.LONG, display_name="Transforms",
        doc="Aliases of the transforms that records go through, in this order.",
    )  # fmt: skip
    predicates: list[str] = setting(
        "predicates", default=[], check=unique("unique predicate aliases"), importance=LOW, group=PREDICATES_GROUP,
        order=13, width=Width.LONG, display_name="Predicates", doc="Aliases of the predicates that transforms use.",
    )  # fmt: skip
    config_action_reload: str = setting(
        "config.action.reload", default="restart", check=one_of("none", "restart", ignore_case=False), importance=LOW,
        group=_COMMON, order=14, width=Width.MEDIUM, display_name="Reload Action",
        doc="Whether the connector is restarted when a value from a config provider changes.",
    )  # fmt: skip
    errors_retry_timeout_ms: int = setting(
        "errors.retry.timeout", default=0, type=Type.LONG, importance=MEDIUM, group=_ERRORS, order=1,
        width=Width.MEDIUM, display_name="Retry Timeout for Errors",
        doc="For how many milliseconds a failed operation is tried again; 0: not at all, -1: for ever.",
    )  # fmt: skip
    errors_retry_delay_max_ms: int = setting(
        "errors.retry.delay.max.ms", default=60_000, type=Type.LONG, importance=MEDIUM, group=_ERRORS, order=2,
        width=Width.MEDIUM, display_name="Maximum Delay Between Retries for Errors",
        doc="The longest pause between two tries.",
    )  # fmt: skip
    errors_tolerance: str = setting(
        "errors.tolerance", default="none", check=one_of("none", "all", ignore_case=False), importance=MEDIUM,
        group=_ERRORS, order=3, width=Width.SHORT, display_name="Error Tolerance",
        doc="none: a record that fails makes its task fail; all: it is skipped.",
    )  # fmt: skip
    errors_log_enable: bool = setting(
        "errors.log.enable", default=False, importance=MEDIUM, group=_ERRORS, order=4, width=Width.SHORT,
        display_name="Log Errors", doc="Whether each failed operation is logged, tolerated or not.",
    )  # fmt: skip
    errors_log_include_messages: bool = setting(
        "errors.log.include.messages", default=False, importance=MEDIUM, group=_ERRORS, order=5, width=Width.SHORT,
        display_name="Log Error Details", doc="Whether such a log line shows the record.",
    )  # fmt: skip

    def transform_specs(self) -> list[TransformSpec]:
        """Return the transforms in the order in which they are applied."""
        return [self._transform(alias) for alias in self.transforms]

    def _transform(self, alias: str) -> TransformSpec:
        properties = self.with_prefix(f"transforms.{alias}.")
        predicate = properties.pop("predicate", None)
        negate = str(properties.pop("negate", "false")).strip().lower() == "true"
        return TransformSpec(
            alias,
            str(properties.pop("type", "")),
            properties,
            None if predicate is None else self._predicate(str(predicate).strip()),
            negate,
        )

    def _predicate(self, alias: str) -> PredicateSpec:
        properties = self.with_prefix(f"predicates.{alias}.")
        return PredicateSpec(alias, str(properties.pop("type", "")), properties)


class SourceConnectorConfig(ConnectorConfig):
    """The additional settings of source connectors."""

    topic_creation_group_names: list[str] = setting(
        "topic.creation.groups", default=[], check=unique("unique topic creation groups"), importance=LOW,
        group=_TOPIC_CREATION, order=1, width=Width.LONG, display_name="Topic Creation Groups",
        doc="Groups of settings for the topics that are created for this connector; `default` always exists.",
    )  # fmt: skip
    exactly_once_support: str = setting(
        "exactly.once.support", default=ExactlyOnceDemand.REQUESTED.value,
        check=one_of(*(demand.value for demand in ExactlyOnceDemand)), importance=MEDIUM, group=_EXACTLY_ONCE, order=2,
        width=Width.SHORT, display_name="Exactly once support",
        doc="required: the connector is refused unless worker and connector can be exactly-once; "
        "requested: it runs in any case.",
    )  # fmt: skip
    transaction_boundary: str = setting(
        "transaction.boundary", default=TransactionBoundary.POLL.value,
        check=one_of(*(boundary.value for boundary in TransactionBoundary)), importance=MEDIUM, group=_EXACTLY_ONCE,
        order=3, width=Width.SHORT, display_name="Transaction Boundary",
        doc="What a transaction holds. poll: each batch that a task returns; interval: what comes in a time; "
        "connector: what the task says, if it can.",
    )  # fmt: skip
    transaction_boundary_interval_ms: int | None = setting(
        "transaction.boundary.interval.ms", default=None, type=Type.LONG, check=at_least(0), importance=LOW,
        group=_EXACTLY_ONCE, order=4, width=Width.SHORT, display_name="Transaction boundary interval",
        doc="That time, where the boundary is interval; unset: the worker's offset.flush.interval.ms, "
        "at most half of the producer's transaction.timeout.ms, which it has to stay below.",
    )  # fmt: skip
    offsets_storage_topic: str | None = setting(
        "offsets.storage.topic", default=None, check=unset_or(topic_name()), importance=LOW,
        group=_OFFSETS_TOPIC, order=1, width=Width.LONG, display_name="Offsets topic",
        doc="A topic of its own for the offsets of this connector, in the cluster that its producer writes to; "
        "created if missing. Unset or empty: the worker's.",
    )  # fmt: skip

    @property
    def boundary(self) -> TransactionBoundary:
        """Return where transactions begin and end."""
        return TransactionBoundary(self.transaction_boundary.lower())

    def topic_creation(self) -> tuple[TopicCreationGroup, ...]:
        """Return the groups in order of precedence; empty if topics are created by the broker."""
        names = [name for name in self.topic_creation_group_names if name != DEFAULT_GROUP]
        return topic_creation_groups(self.originals, names)


class SinkTopicsConfig(ConnectorConfig):
    """Which topics a sink reads."""

    topics: list[str] = setting(
        "topics", default=[], check=each(unset_or(topic_name())), importance=HIGH, group=_COMMON, order=4,
        width=Width.LONG, display_name="Topics", doc="The topics to read, separated by commas.",
    )  # fmt: skip
    topics_regex: str = setting(
        "topics.regex", default="", importance=HIGH, group=_COMMON, order=4, width=Width.LONG,
        display_name="Topics regex",
        doc="A Java regular expression: topics are read whose whole name it matches, new ones too. This or `topics`.",
    )  # fmt: skip


class DeadLetterConfig(Config):
    """The destination of records that could not be processed: of a sink's, and in contrast to Kafka Connect also of a
    source's.

    Kafka Connect's `validate` does not list these keys for a source, and neither do we.
    """

    dead_letters_topic: str = setting(
        "errors.deadletterqueue.topic.name", default="", importance=MEDIUM, group=_ERRORS, order=6, width=Width.MEDIUM,
        display_name="Dead Letter Queue Topic Name",
        doc="The topic that records go to which cannot be processed; empty: none. A sink's are written as they were "
        "read, a source's as far as JSON can tell them, and with errors.tolerance=all only.",
    )  # fmt: skip
    dead_letters_replication: int = setting(
        "errors.deadletterqueue.topic.replication.factor", type=Type.SHORT, default=3, importance=MEDIUM,
        group=_ERRORS, order=7, width=Width.MEDIUM, display_name="Dead Letter Queue Topic Replication Factor",
        doc="How many replicas that topic is created with.",
    )  # fmt: skip
    dead_letters_headers: bool = setting(
        "errors.deadletterqueue.context.headers.enable", default=False, importance=MEDIUM, group=_ERRORS, order=8,
        width=Width.MEDIUM, display_name="Enable Error Context Headers",
        doc="Whether dead letters say in headers where they come from and what failed.",
    )  # fmt: skip


class SinkChoice(Config):
    """Settings of a sink that only Fencepost has; Kafka Connect's `validate` does not list them."""

    resend_topic: str | None = setting(
        "errors.deadletterqueue.resend.topic.name", default=None, check=topic_name(), importance=LOW,
        doc="A topic of the sink's own, which it reads beside its others: `fencepost dead-letters --resend` sends its "
        "dead letters there, where no other consumer reads them. Each is taken as a record of the topic that it came "
        "from. Created if missing; unset: they are sent to the topics that they came from.",
    )  # fmt: skip


class SinkConnectorConfig(DeadLetterConfig, SinkTopicsConfig):
    """The additional settings of sink connectors, in Kafka Connect's order."""


class StreamConnectorConfig(SinkConnectorConfig):
    """The settings that streams have in addition to sinks: how they write."""

    output_key_converter: str | None = setting(
        f"{OUTPUT}key.converter", default=None, type=Type.CLASS, importance=MEDIUM, group=_OUTPUT, order=1,
        width=Width.SHORT, display_name="Output key converter class",
        doc="Converts keys that are written; its settings stand below it. Unset: as keys that are read, key.converter.",
    )  # fmt: skip
    output_value_converter: str | None = setting(
        f"{OUTPUT}value.converter", default=None, type=Type.CLASS, importance=MEDIUM, group=_OUTPUT, order=2,
        width=Width.SHORT, display_name="Output value converter class",
        doc="The same for values; unset: value.converter.",
    )  # fmt: skip
    output_header_converter: str | None = setting(
        f"{OUTPUT}header.converter", default=None, type=Type.CLASS, importance=LOW, group=_OUTPUT, order=3,
        width=Width.SHORT, display_name="Output header converter class",
        doc="The same for the values of headers; unset: header.converter.",
    )  # fmt: skip
    output_transforms: list[str] = setting(
        f"{OUTPUT}transforms", default=[], check=unique("unique transformation aliases"), importance=LOW, group=_OUTPUT,
        order=4, width=Width.LONG, display_name="Output transforms",
        doc="Aliases of the transforms that records go through on their way out, in this order; each is configured "
        "below output.transforms.ALIAS. Those in `transforms` are for what is read.",
    )  # fmt: skip
    output_predicates: list[str] = setting(
        f"{OUTPUT}predicates", default=[], check=unique("unique predicate aliases"), importance=LOW, group=_OUTPUT,
        order=5, width=Width.LONG, display_name="Output predicates",
        doc="Aliases of the predicates that these use, configured below output.predicates.ALIAS.",
    )  # fmt: skip
    transaction_boundary: str = setting(
        SourceConnectorConfig.key_of("transaction_boundary"), default=TransactionBoundary.POLL.value,
        check=one_of(TransactionBoundary.POLL.value, TransactionBoundary.INTERVAL.value), importance=MEDIUM,
        group=_EXACTLY_ONCE, order=1, width=Width.SHORT, display_name="Transaction Boundary",
        doc="What a transaction holds. poll: each batch, or those that have come while the one before was committed; "
        "interval: what comes in a time.",
    )  # fmt: skip
    transaction_boundary_interval_ms: int | None = setting(
        SourceConnectorConfig.key_of("transaction_boundary_interval_ms"), default=None, type=Type.LONG,
        check=at_least(0), importance=LOW, group=_EXACTLY_ONCE, order=2, width=Width.SHORT,
        display_name="Transaction boundary interval",
        doc="That time, from the first record on; unset: the worker's offset.flush.interval.ms, at most half of the "
        "producer's transaction.timeout.ms, which it has to stay below.",
    )  # fmt: skip
    foreign_producers: list[str] = setting(
        "input.producers.foreign", default=[], importance=LOW, group=_EXACTLY_ONCE, order=3, width=Width.MEDIUM,
        display_name="Foreign producers",
        doc="How transactional ids begin that are named like those of producers for one partition of this group each, "
        "and have nothing to do with it: they are not fenced for their names. A number at the end is a whole one.",
    )  # fmt: skip


def implicit_transform_settings() -> list[Setting]:
    """Return the two settings that every transform has in addition to its own."""
    return [
        Setting(
            "predicate",
            None,
            doc="The alias of the predicate that decides which records the transform applies to.",
            declared_type=Type.STRING,
        ),
        Setting(
            "negate", False, doc="Whether it applies to the records that do not match.", declared_type=Type.BOOLEAN
        ),
    ]
