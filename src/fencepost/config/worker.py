"""`WorkerConfig`: Kafka Connect's distributed worker file, with the few settings that are ours."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path

from fencepost.config.check import ConfigError, at_least, between, each, non_empty, one_of, parsed_by
from fencepost.config.client import ConnectionConfig, SecurityConfig
from fencepost.config.cluster import (
    CLOSED,
    ClosedTopics,
    GroupConfig,
    InternalTopicConfig,
    RetentionConfig,
    SigningConfig,
)
from fencepost.config.connector_limit import ALLOWED, known_policy
from fencepost.config.rest import RestAccessConfig
from fencepost.config.setting import HIGH, LOW, MEDIUM, Config, Type, setting
from fencepost.config.tracing import TracingConfig
from fencepost.guide import guide

_LIMITS = {
    "EnvVarConfigProvider": "allowlist.pattern",
    "FileConfigProvider": "allowed.paths",
    "DirectoryConfigProvider": "allowed.paths",
}
"""The providers that read everything unless this setting limits them."""


def _absolute(text: str) -> None:
    if not Path(text).is_absolute():
        raise ValueError("must be absolute paths, and none of them empty")


class PluginConfig(Config):
    """Which plug-ins there are, and what limits them."""

    config_providers: list[str] = setting(
        "config.providers",
        default=[],
        importance=LOW,
        doc="Names of the providers that look up `${provider:path:key}` in this file and in configs of connectors. "
        "`config.providers.NAME.class` is the class of each, and `config.providers.NAME.param.*` are its settings.",
    )
    plugin_path: list[str] | None = setting(
        "plugin.path",
        default=None,
        importance=LOW,
        doc="Directories with plug-ins: Python files and packages, and directories of jars, as Kafka Connect has them. "
        "Installed packages are found by their entry points.",
    )
    plugin_disabled: list[str] = setting(
        "plugin.disabled",
        default=[],
        importance=LOW,
        doc="Classes that configs may not name, although they are installed or built in: in full, or as a config names "
        "them, such as `FileStreamSource,FileStreamSink`.",
    )
    plugin_discovery: str = setting(
        "plugin.discovery",
        default="hybrid_warn",
        check=one_of("only_scan", "hybrid_warn", "hybrid_fail", "service_load"),
        importance=LOW,
        doc="How Java looks for plug-ins.",
        without_effect="plug-ins are found in the directories of plugin.path and by their entry points",
    )
    file_allowed_paths: list[str] | None = setting(
        ALLOWED,
        default=None,
        check=each(parsed_by(_absolute, "absolute paths")),
        importance=MEDIUM,
        doc="The only files and directories of this machine, with everything below them, that FileStreamSource, "
        "FileStreamSink, SpoolDirectorySource, FilesSink and JdbcSource (SQLite) may use. Unset: any. The files that "
        "this file names, this file itself and `plugin.path` are refused in any case.",
    )

    def unlimited(self) -> Iterator[str]:
        """Yield a warning for each way in which connectors can read whatever the worker can."""
        for name in self.config_providers:
            prefix = f"{PluginConfig.key_of('config_providers')}.{name}."
            limit = _LIMITS.get(str(self.originals.get(f"{prefix}class", "")).rpartition(".")[2])
            if limit is not None and not self.originals.get(f"{prefix}param.{limit}"):
                yield (
                    f"'{prefix}param.{limit}' is not set: whoever may edit a connector can read whatever this provider "
                    "can; set it to what configs need"
                )
        if self.file_allowed_paths is None:
            yield (
                f"'{ALLOWED}' is not set: whoever may edit a connector can have files read and written as this "
                "worker; set it to the directories that connectors need"
            )


_ACCEPTED = "accepted"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class SlotConfig(Config):
    """Where task loops run on Spark; the settings of Spark itself begin with `spark.`."""

    slots_max: int = setting(
        "slots.max",
        type=Type.INT,
        default=0,
        check=between(0, 10_000),
        doc="How many slots this worker may ask Spark for; 0: as many as this machine has cores, at least 2.",
    )
    slot_lease_ms: int = setting(
        "slot.lease.ms",
        type=Type.INT,
        default=10_000,
        check=at_least(1_000),
        doc="A slot that cannot reach its worker for so long stops its tasks.",
    )
    channel_host: str = setting(
        "channel.host",
        default="127.0.0.1",
        check=non_empty(),
        doc="The address at which executors reach this worker. Anything but loopback needs channel.ssl.* as well.",
    )
    channel_certificate: str | None = setting(
        "channel.ssl.certificate.location",
        default=None,
        doc="PEM file with the certificate that the worker shows its executors.",
    )
    channel_key: str | None = setting(
        "channel.ssl.key.location", default=None, doc="PEM file with the key of that certificate."
    )
    channel_authority: str | None = setting(
        "channel.ssl.ca.location",
        default=None,
        doc="PEM file with the authority that signed it, which executors trust; unset: their system's.",
    )

    channel_unprotected: str = setting(
        "channel.unprotected",
        default="refused",
        check=one_of("refused", _ACCEPTED),
        doc="What becomes of a `spark.master` on a cluster without `spark.authenticate` and encryption. refused: the "
        "worker does not start. accepted: a firewall protects the connections between the driver and its executors.",
    )
    java_host_options: str = setting(
        "java.host.options",
        default="",
        importance=LOW,
        doc="Options of the JVMs that run Java plug-ins, such as `-Xmx512m`, separated by spaces. Each slot with Java "
        "tasks has such a JVM; by default, its heap takes what it needs, up to a quarter of the machine's or the "
        "container's memory.",
    )

    @property
    def java_options(self) -> tuple[str, ...]:
        """Return the options of hosts, one by one."""
        return tuple(self.java_host_options.split())

    def spark_fault(self) -> str | None:
        """Return why executors on other machines would make this worker open to whoever reaches it; None if not."""
        master = str(self.originals.get("spark.master", "local"))
        if master.startswith("local") or self.channel_unprotected.lower() == _ACCEPTED:
            return None
        is_on = {key for key, value in self.with_prefix("spark.").items() if str(value).strip().lower() == "true"}
        if "authenticate" not in is_on:
            missing = "spark.authenticate=true, with the secret of the cluster,"
        elif is_on.isdisjoint({"network.crypto.enabled", "ssl.rpc.enabled"}):
            missing = "spark.network.crypto.enabled=true"
        else:
            return None
        return (
            f"Invalid value {master} for configuration spark.master: Spark's driver listens for executors on other "
            f"machines, and whoever reaches it can run code in this worker. Either set {missing} (see "
            f"{guide('how-to/run-on-a-spark-cluster')}); or, if a firewall protects these connections, set "
            f"{SlotConfig.key_of('channel_unprotected')}={_ACCEPTED}"
        )

    def channel_fault(self) -> str | None:
        """Return why this combination of settings is wrong; None if it is right."""
        has_tls = self.channel_certificate is not None and self.channel_key is not None
        if (self.channel_certificate is None) != (self.channel_key is None):
            return "channel.ssl.certificate.location and channel.ssl.key.location go together; set both or neither"
        if not has_tls and self.channel_host not in _LOOPBACK:
            return (
                f"Invalid value {self.channel_host} for configuration channel.host: the channel to executors carries "
                "client settings, so it is loopback or TLS; set channel.ssl.certificate.location and "
                "channel.ssl.key.location"
            )
        return None


class SourceDefaults(Config):
    """What sources inherit, unless their own configs say otherwise."""

    def ledger_fault(self, closed: ClosedTopics) -> str | None:
        """Return why the ledger cannot be in its topic; None if it can."""
        topic = self.ledger_topic.strip()
        key = type(self).key_of("ledger_topic")
        return f"Invalid value {topic} for configuration {key}: {CLOSED}" if closed.has(topic) else None

    ledger_topic: str = setting(
        "ledger.topic",
        default="",
        importance=LOW,
        doc="The topic of the ledger of each source that can have one and whose config has no `ledger.topic`; an empty "
        "one there means that it has none. Empty: no ledger.",
    )


class ExactlyOnceSource(Enum):
    """The two steps of an upgrade to exactly-once sources (KIP-618)."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"


class RuntimeConfig(Config):
    """How this worker runs connectors."""

    key_converter: str = setting("key.converter", type=Type.CLASS, importance=HIGH, doc="Converts keys.")
    value_converter: str = setting("value.converter", type=Type.CLASS, importance=HIGH, doc="Converts values.")
    header_converter: str = setting(
        "header.converter",
        default="org.apache.kafka.connect.storage.SimpleHeaderConverter",
        type=Type.CLASS,
        importance=LOW,
        doc="Converts the values of headers.",
    )
    exactly_once_source_support: str = setting(
        "exactly.once.source.support",
        default=ExactlyOnceSource.DISABLED.value,
        check=one_of(*(step.value for step in ExactlyOnceSource)),
        importance=HIGH,
        doc="Whether source records and their offsets are committed together. Set it on every worker of the cluster, "
        "one after the other. `preparing`, a step that Kafka Connect needs, is the same as `disabled`.",
    )
    exactly_once_source_enabled: bool | None = setting(
        "exactly.once.source.enabled",
        default=None,
        importance=HIGH,
        doc="KIP-618's first name of `exactly.once.source.support`: true for enabled, false for disabled. Set it on "
        "every worker of the cluster. Some connectors cannot be exactly-once even then.",
    )
    task_shutdown_graceful_timeout_ms: int = setting(
        "task.shutdown.graceful.timeout.ms",
        default=5_000,
        check=at_least(0),
        importance=LOW,
        type=Type.LONG,
        doc="How long all tasks together may take to stop; what still runs then is cancelled.",
    )
    offset_flush_interval_ms: int = setting(
        "offset.flush.interval.ms",
        default=60_000,
        check=at_least(1),
        importance=LOW,
        type=Type.LONG,
        doc="How often source offsets are committed when exactly-once is off.",
    )
    offset_flush_timeout_ms: int = setting(
        "offset.flush.timeout.ms",
        default=5_000,
        check=at_least(1),
        importance=LOW,
        type=Type.LONG,
        doc="How long such a commit may take; without effect when exactly-once is on.",
    )
    override_policy: str = setting(
        "connector.client.config.override.policy",
        default="All",
        check=known_policy(),
        importance=MEDIUM,
        doc="Which client settings a connector may override: All, None, Principal or Allowlist.",
    )
    override_allowlist: list[str] = setting(
        "connector.client.config.override.allowlist",
        default=[],
        importance=MEDIUM,
        doc="The client settings that the policy Allowlist lets a connector override (KIP-1188).",
    )
    override_allowed_paths: list[str] = setting(
        "connector.client.config.override.allowed.paths",
        default=[],
        importance=MEDIUM,
        doc="Directories from which a connector may name TLS files in its overrides. None are allowed by default.",
    )
    topic_creation_enable: bool = setting(
        "topic.creation.enable",
        default=True,
        importance=LOW,
        doc="Whether connectors may ask for their topics to be created.",
    )
    topic_tracking_enable: bool = setting(
        "topic.tracking.enable",
        default=True,
        importance=LOW,
        doc="Whether the topics of each connector are kept track of.",
    )
    topic_tracking_allow_reset: bool = setting(
        "topic.tracking.allow.reset", default=True, importance=LOW, doc="Whether users may reset them."
    )


class MetricConfig(Config):
    """How metrics are made; they are always served at /metrics."""

    metrics_sample_window_ms: int = setting(
        "metrics.sample.window.ms",
        default=30_000,
        check=at_least(0),
        importance=LOW,
        type=Type.LONG,
        doc="How long a window lasts. The metrics that are rates look at the last `metrics.num.samples` of them.",
    )
    metrics_num_samples: int = setting(
        "metrics.num.samples",
        type=Type.INT,
        default=2,
        check=at_least(1),
        importance=LOW,
        doc="Windows that a rate is made of.",
    )
    metrics_recording_level: str = setting(
        "metrics.recording.level",
        default="INFO",
        check=one_of("INFO", "DEBUG"),
        importance=LOW,
        doc="Detail of metrics.",
        without_effect="there is one level of detail",
    )
    metric_reporters: list[str] = setting(
        "metric.reporters",
        default=["org.apache.kafka.common.metrics.JmxReporter"],
        importance=LOW,
        doc="Classes that metrics are handed to.",
        without_effect="Prometheus asks for the metrics at /metrics",
    )


def nearest(key: str, known: Iterable[str]) -> str | None:
    """Return the known key that an unknown one probably means, if there is a similar one."""
    return next(iter(difflib.get_close_matches(key, list(known), n=1, cutoff=0.75)), None)


_PREFIXES = (
    "producer.", "consumer.", "admin.",
    "config.storage.", "offset.storage.", "status.storage.",
    "listeners.https.", "admin.listeners.https.",
    "key.converter.", "value.converter.", "header.converter.", "config.providers.",
    "ssl.", "sasl.", "metrics.context.", "spark.",
)  # fmt: skip
_METRICS_CONTEXT = "metrics.context."


class WorkerConfig(
    ConnectionConfig, SecurityConfig, GroupConfig, InternalTopicConfig, SigningConfig, RestAccessConfig, RuntimeConfig,
    PluginConfig, MetricConfig, TracingConfig, SlotConfig, SourceDefaults, RetentionConfig,
):  # fmt: skip
    """The whole worker file, whose references are looked up (`fencepost.reference.providers`)."""

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        """Parse `properties`. Raises ConfigError; it names misspelt keys, too: one may be the key that is missing."""
        try:
            super().__init__(properties)
        except ConfigError as error:
            misspelt = [(key, near) for key, near in self.unknown_keys() if near is not None]
            raise ConfigError(
                [*error.messages, *(f"Unknown configuration {key}: did you mean {near}?" for key, near in misspelt)]
            ) from None

    @property
    def exactly_once(self) -> ExactlyOnceSource:
        """Return whether sources are exactly-once, under whichever of the setting's two names it was given."""
        if self.exactly_once_source_enabled is not None:
            return ExactlyOnceSource.ENABLED if self.exactly_once_source_enabled else ExactlyOnceSource.DISABLED
        return ExactlyOnceSource(self.exactly_once_source_support.lower())

    @property
    def is_exactly_once(self) -> bool:
        """Say whether sources on workers with this file run exactly-once."""
        return self.exactly_once is ExactlyOnceSource.ENABLED

    @property
    def accepts_body_signatures(self) -> bool:
        """Say whether requests between workers may be signed as Kafka Connect does.

        By default they may not: they can be replayed. Writing the default of `connect.protocol` to the file allows it.
        """
        return str(self.originals.get(WorkerConfig.key_of("connect_protocol"), "")).strip().lower() == "sessioned"

    @property
    def spark(self) -> dict[str, str]:
        """Return the settings of Spark, under their full names."""
        return {key: str(value) for key, value in self.originals.items() if key.startswith("spark.")}

    def client_properties(self, prefix: str) -> dict[str, object]:
        """Return what connectors' clients get from the worker: its brokers and what stands under `producer.` etc."""
        of_rest = WorkerConfig.key_of("admin_listeners")
        given = {k: v for k, v in self.with_prefix(prefix).items() if not f"{prefix}{k}".startswith(of_rest)}
        return {WorkerConfig.key_of("bootstrap_servers"): ",".join(self.bootstrap_servers), **given}

    @property
    def internal_client_properties(self) -> dict[str, object]:
        """Return what the worker's own clients get: the connection settings that the file holds, without a prefix."""
        shared = {*ConnectionConfig.settings(), *SecurityConfig.settings()}
        given = {k: v for k, v in self.originals.items() if k in shared or k.startswith(("ssl.", "sasl."))}
        given.pop(WorkerConfig.key_of("ssl_client_auth"), None)
        known = self.settings()
        given = {k: v for k, v in given.items() if k not in known or known[k].without_effect is None}
        return {**given, WorkerConfig.key_of("bootstrap_servers"): ",".join(self.bootstrap_servers)}

    def unknown_keys(self) -> list[tuple[str, str | None]]:
        """Return the unknown keys of the file, each with a similar known key, if there is one."""
        return [(key, nearest(key, self.settings())) for key in self.originals if not self.knows(key)]

    @classmethod
    def knows(cls, key: str) -> bool:
        """Return whether a worker knows a key."""
        return key in cls.settings() or key.startswith(_PREFIXES) or key in _IGNORED

    def warnings(self) -> list[str]:
        """Return one text for each setting of the file that is known and has no effect, or one that is a risk."""
        found = [f"Ignoring '{key}': {why}" for key, why in _IGNORED.items() if key in self.originals]
        found += [
            f"Ignoring '{key}': {declared.without_effect}"
            for key, declared in self.settings().items()
            if declared.without_effect is not None and key in self.originals
        ]
        found += [f"Ignoring '{key}': {why}" for key, why in self._without_effect_here() if key in self.originals]
        if any(key.startswith(_METRICS_CONTEXT) for key in self.originals):
            found.append(f"Ignoring '{_METRICS_CONTEXT}*': metrics are handed to no reporter")
        found += (f"Ignoring '{key}': {why}" for key, why in self.unprotected().items())
        found += self.missing_extensions()
        if self.roles_file is not None:
            found += self.unlimited()
        if self.accepts_body_signatures:
            key = WorkerConfig.key_of("connect_protocol")
            found.append(
                f"'{key}=sessioned' accepts requests that can be replayed; remove it once no worker is Kafka's"
            )
        return found

    def _without_effect_here(self) -> Iterator[tuple[str, str]]:
        """Yield the settings that have no effect together with the other settings of this file, and why."""
        for kind in ("config", "offset", "status"):
            yield f"{kind}.storage.cleanup.policy", "internal topics are always compacted"
        if self.is_exactly_once:
            why = "with exactly-once on, the time-out of the transaction bounds a commit"
            yield WorkerConfig.key_of("offset_flush_timeout_ms"), why

    def check_together(self) -> list[str]:
        return [
            text
            for text in (
                self._sessions(),
                self._algorithms(),
                self._exactly_once_names(),
                self.ledger_fault(self.closed_topics),
                self.channel_fault(),
                self.spark_fault(),
                self.tracing_fault(),
                *self.unprotected_faults(),
            )
            if text
        ]

    def _sessions(self) -> str | None:
        if self.heartbeat_interval_ms < self.session_timeout_ms:
            return None
        heartbeat, session = WorkerConfig.key_of("heartbeat_interval_ms"), WorkerConfig.key_of("session_timeout_ms")
        return (
            f"Invalid value {self.heartbeat_interval_ms} for configuration {heartbeat}: "
            f"must be lower than {session}, which is {self.session_timeout_ms}"
        )

    def _algorithms(self) -> str | None:
        if self.signature_algorithm in self.verification_algorithms:
            return None
        signature, verification = (
            WorkerConfig.key_of("signature_algorithm"),
            WorkerConfig.key_of("verification_algorithms"),
        )
        return (
            f"Invalid value {','.join(self.verification_algorithms)} for configuration {verification}: "
            f"must hold {self.signature_algorithm}, the value of {signature}"
        )

    def _exactly_once_names(self) -> str | None:
        support, enabled = (
            WorkerConfig.key_of("exactly_once_source_support"),
            WorkerConfig.key_of("exactly_once_source_enabled"),
        )
        if self.exactly_once_source_enabled is None or self.originals.get(support) is None:
            return None
        if self.exactly_once.value == self.exactly_once_source_support.lower():
            return None
        return (
            f"Invalid value {str(self.exactly_once_source_enabled).lower()} for configuration {enabled}: "
            f"contradicts {support}={self.exactly_once_source_support}; keep only {support}"
        )


_IGNORED = {
    "transactional.id": "the leader's id is connect-cluster-<group.id>, and each task has its own",
    "config.storage.partitions": "the config topic always has one partition",
    "internal.key.converter": "internal topics are always written as JSON without schemas",
    "internal.value.converter": "internal topics are always written as JSON without schemas",
    "internal.key.converter.schemas.enable": "internal topics are always written as JSON without schemas",
    "internal.value.converter.schemas.enable": "internal topics are always written as JSON without schemas",
    "rest.host.name": "Kafka Connect ignores it since version 3: name the address in listeners, http://HOST:PORT",
    "rest.port": "Kafka Connect ignores it since version 3: name the port in listeners, http://HOST:PORT",
    "offset.storage.file.filename": "only workers of Kafka Connect that run alone have it; offsets are in a topic",
}
