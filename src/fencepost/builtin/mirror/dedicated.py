"""A MirrorMaker 2 file: its clusters and flows, and the settings of each.

A key has no prefix, the prefix of a cluster (`west.`), or that of a flow (`west->east.`). Settings are combined as
follows, and later ones win:

- a worker: defaults of every worker, worker settings without a prefix, those of the target cluster, storage topics,
  converters and `task` without a prefix (as in Kafka's MirrorMaker), those of the flow;
- a connector: its settings without a prefix, connection and client settings of both clusters, those of the flow.

Connection settings without a prefix (`security.protocol`, `ssl.`, `sasl.`) apply to every cluster.

References to config providers are looked up for the workers. The connectors' configs, which are stored in Kafka, keep
them.

A flow of a MirrorMaker 2 file: its connectors, and the settings of these and of its worker.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import permutations
from pathlib import Path

from fencepost.api import HIGH, LOW, Config, ConfigError, non_empty, one_of, setting
from fencepost.builtin.mirror.checkpoint.connector import MirrorCheckpointConnector
from fencepost.builtin.mirror.heartbeat import MirrorHeartbeatConnector
from fencepost.builtin.mirror.setting.clients import CLIENT_PREFIXES, FlowEnd, is_to_connect
from fencepost.builtin.mirror.setting.mirror_settings import MirrorSettings, OffsetSyncSettings
from fencepost.builtin.mirror.sink import MirrorSinkConnector
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.config.connector import RuntimeChoice, SourceConnectorConfig
from fencepost.config.connector_limit import TLS_FILES
from fencepost.config.file import read_properties
from fencepost.config.reference import has_references
from fencepost.config.rest import Listener
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig, nearest
from fencepost.embedded.java import environment_options, giving_way
from fencepost.kafka.setting.table import ClientKind
from fencepost.reference.providers import worker_properties

ARROW = "->"
_KAFKAS = "org.apache.kafka.connect.mirror."
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CLASSES: Mapping[str, type[Config]] = {
    cls.__name__: cls
    for cls in (MirrorSourceConnector, MirrorSinkConnector, MirrorCheckpointConnector, MirrorHeartbeatConnector)
}
_SOURCE, _SINK, _CHECKPOINT, _HEARTBEAT = _CLASSES
_KINDS = tuple(f"{kind.value}." for kind in ClientKind)
_CHAINS = ("transforms.", "predicates.", "topic.creation.", *(f"{kind}override." for kind in _KINDS))
_NAMED_HERE = frozenset({SourceConnectorConfig.key_of("name"), SourceConnectorConfig.key_of("connector_class")})
# Without a prefix, these override the target cluster's settings, as in Kafka's MirrorMaker.
_ALONE_WINS = (
    "offset.storage", "config.storage", "status.storage", "key.converter", "value.converter", "header.converter",
    "task", "worker",
)  # fmt: skip
_EACH_ITS_OWN = frozenset({WorkerConfig.key_of("group_id"), WorkerConfig.key_of("client_id")})
_LISTENERS = WorkerConfig.key_of("listeners")
# Spark's JVM only runs slots: it does not need the optimising compiler.
_JVM_KEY, _JVM_OPTIONS = "spark.driver.extraJavaOptions", ["-XX:TieredStopAtLevel=1"]


class FlowChoice(Config):
    """Settings that decide which connectors a flow has, with the flow's prefix, or without one for all flows."""

    is_enabled: bool = setting(MirrorSettings.key_of("is_enabled"), default=False, doc="Whether the flow is mirrored.")
    connector_type: str = setting(
        "connector.type", default="source", check=one_of("source", "sink", ignore_case=False), importance=HIGH,
        doc="`source`: MirrorSourceConnector, whose positions are in an offsets topic; `sink`: MirrorSinkConnector, "
        "whose positions are in the transactions of the target (KIP-656).",
    )  # fmt: skip
    is_transactional: bool = setting(
        MirrorSinkConnector.key_of("is_transactional"), default=False,
        doc="Whether the sink type is exactly once; its worker then has `exactly.once.source.support=enabled`.",
    )  # fmt: skip
    emits_heartbeats: bool = setting(
        MirrorHeartbeatConnector.key_of("emits"), default=True, importance=LOW, doc="Whether heartbeats are sent."
    )
    emits_checkpoints: bool = setting(
        MirrorCheckpointConnector.key_of("emits"), default=True, importance=LOW, doc="Whether checkpoints are written."
    )
    emits_syncs: bool = setting(
        OffsetSyncSettings.key_of("emit_offset_syncs"), default=True, importance=LOW,
        doc="Whether offset syncs are written; without them there are no checkpoints.",
    )  # fmt: skip

    @property
    def is_sink(self) -> bool:
        return self.connector_type == "sink"


@cache
def connector_keys() -> frozenset[str]:
    """Return the settings of all connectors of a mirror."""
    return frozenset().union(
        *(cls.settings() for cls in _CLASSES.values()), SourceConnectorConfig.settings(), RuntimeChoice.settings()
    )


def is_for_connectors_alone(key: str) -> bool:
    """Say whether a key without a prefix is for the connectors of every flow.

    Connection settings are for clusters instead, and those of converters are for the worker, too.
    """
    return (key in connector_keys() and key not in _NAMED_HERE) or key.startswith(_CHAINS)


def is_for_connectors(key: str) -> bool:
    """Say whether a key with a flow's prefix is for its connectors."""
    return is_for_connectors_alone(key) or key.startswith(CLIENT_PREFIXES)


def is_for_workers(key: str) -> bool:
    """Say whether a key with a flow's prefix is for its worker."""
    return WorkerConfig.knows(key) and not key.startswith(_KINDS)


def is_for_workers_alone(key: str) -> bool:
    """Say whether a key without a prefix is for the worker of every flow."""
    return is_for_workers(key) and key not in _EACH_ITS_OWN


@dataclass(frozen=True)
class Flow:
    """From one cluster to another, with the settings of the file: without a prefix, of the flow, of both clusters.

    `written` has the same settings with references to config providers, if the file has any.
    """

    source: str
    target: str
    alone: Mapping[str, str] = field(repr=False)
    own: Mapping[str, str] = field(repr=False)
    source_cluster: Mapping[str, str] = field(repr=False)
    target_cluster: Mapping[str, str] = field(repr=False)
    has_internal_rest: bool = False
    written: "Flow | None" = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return f"{self.source}{ARROW}{self.target}"

    @cached_property
    def choice(self) -> FlowChoice:
        """Return the settings that decide which connectors the flow has. Raises ConfigError."""
        return FlowChoice({**self.alone, **self.own})

    @property
    def asks_for_heartbeats(self) -> bool:
        """Say whether the file asks for heartbeats of this flow in particular."""
        return self.choice.emits_heartbeats and FlowChoice.key_of("emits_heartbeats") in self.own

    @property
    def record_connector(self) -> str:
        """Return the name of the connector that copies records.

        For the sink type it contains the flow: its group, `connect-` and this name, must differ from those of other
        flows.
        """
        return self._of_type(is_sink=self.choice.is_sink)

    @property
    def rival(self) -> str:
        """Return the name of the connector of the other type that would copy the same records."""
        return self._of_type(is_sink=not self.choice.is_sink)

    def _of_type(self, *, is_sink: bool) -> str:
        return f"{_SINK}-{self.name}" if is_sink else _SOURCE

    # the worker

    def worker_properties(self, number: int = 0) -> dict[str, str]:
        """Return the properties of the flow's worker; `number` counts the flows that this process runs."""
        alone = {key: value for key, value in self.alone.items() if is_for_workers_alone(key)}
        given = {
            **self._worker_defaults(),
            **alone,
            **{key: value for key, value in self.target_cluster.items() if WorkerConfig.knows(key)},
            **{key: value for key, value in alone.items() if key.startswith(_ALONE_WINS)},
            **{key: value for key, value in self.own.items() if is_for_workers(key)},
        }
        return {**given, _LISTENERS: self._listener(given.get(_LISTENERS), number)}

    def _worker_defaults(self) -> dict[str, str]:
        key = WorkerConfig.key_of
        is_exact = self.choice.is_sink and self.choice.is_transactional
        support = ExactlyOnceSource.ENABLED if is_exact else ExactlyOnceSource.DISABLED
        return {
            key("client_id"): self.name,
            key("group_id"): f"{self.source}-mm2",
            key("offset_storage_topic"): f"mm2-offsets.{self.source}.internal",
            key("status_storage_topic"): f"mm2-status.{self.source}.internal",
            key("config_storage_topic"): f"mm2-configs.{self.source}.internal",
            key("key_converter"): _BYTES,
            key("value_converter"): _BYTES,
            key("header_converter"): _BYTES,
            key("exactly_once_source_support"): support.value,
            key("override_allowed_paths"): ",".join(self._tls_files()),
            _JVM_KEY: " ".join(giving_way(_JVM_OPTIONS, environment_options())),
        }

    def _tls_files(self) -> list[str]:
        """Return the TLS files that the connectors name: the file's author allows them, and no other files."""
        configs = replace(self, written=None).connectors().values()
        return sorted({v for config in configs for key, v in config.items() if key.endswith(TLS_FILES)})

    def _listener(self, given: str | None, number: int) -> str:
        """Return the listener of the flow's worker: its own, or the common one with `number` added to the port."""
        if given is None:
            return "http://:0" if self.has_internal_rest else "http://127.0.0.1:0"
        if _LISTENERS in self.own:
            return given
        first = Listener.parse(given.split(",")[0])
        return str(Listener(first.scheme, first.host, first.port + number if first.port else 0))

    # the connectors

    def connectors(self) -> dict[str, dict[str, str]]:
        """Return the configs of the flow's connectors, by name, with the references of the file."""
        choice = self.choice
        has_checkpoints = choice.is_enabled and choice.emits_checkpoints and choice.emits_syncs
        return {
            self.record_connector: self._connector(
                self.record_connector, _SINK if choice.is_sink else _SOURCE, is_enabled=choice.is_enabled
            ),
            _CHECKPOINT: self._connector(_CHECKPOINT, _CHECKPOINT, is_enabled=has_checkpoints),
            _HEARTBEAT: self._connector(_HEARTBEAT, _HEARTBEAT, is_enabled=choice.emits_heartbeats),
        }

    def _connector(self, name: str, kind: str, *, is_enabled: bool) -> dict[str, str]:
        key, written = MirrorSettings.key_of, self.written or self
        syncs = OffsetSyncSettings.key_of("offset_syncs_location")
        return {
            **({syncs: FlowEnd.TARGET.value} if self.choice.is_sink else {}),
            **{k: v for k, v in written.alone.items() if is_for_connectors_alone(k)},
            **_clients(FlowEnd.SOURCE, written.source_cluster),
            **_clients(FlowEnd.TARGET, written.target_cluster),
            key("source_cluster_alias"): self.source,
            key("target_cluster_alias"): self.target,
            **{k: v for k, v in written.own.items() if is_for_connectors(k)},
            key("is_enabled"): str(is_enabled).lower(),
            SourceConnectorConfig.key_of("name"): name,
            SourceConnectorConfig.key_of("connector_class"): _KAFKAS + kind,
        }


def _clients(end: FlowEnd, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a cluster's clients, under their names in connector configs."""
    return {
        **{f"{end}.cluster.{key}": value for key, value in properties.items() if is_to_connect(key)},
        **{f"{end}.{key}": value for key, value in properties.items() if key.startswith(_KINDS)},
    }


_BOOTSTRAP = WorkerConfig.key_of("bootstrap_servers")
_Parts = Mapping[str, Mapping[str, str]]
"""The settings of a file by their prefix, which is empty or ends in a point, and without it."""


class MirrorFile(Config):
    """A parsed MirrorMaker 2 file. The constructor raises ConfigError with all faults at once."""

    clusters: list[str] = setting("clusters", check=non_empty(), importance=HIGH, doc="The aliases of the clusters.")
    has_internal_rest: bool = setting(
        "dedicated.mode.enable.internal.rest", default=False, importance=HIGH,
        doc="Whether workers on other machines must reach this one. If not, it listens on the loopback address.",
    )  # fmt: skip

    def __init__(self, properties: Mapping[str, object], written: Mapping[str, object] | None = None) -> None:
        """`written`: the properties with references to config providers, if `properties` has their values."""
        self._written = properties if written is None else written
        super().__init__(properties)

    @classmethod
    def load(cls, path: Path) -> "MirrorFile":
        """Load a file, with values from config providers. Raises ConfigError if it is unreadable or wrong."""
        written = read_properties(path)
        return cls(worker_properties(written), written)

    @cached_property
    def pairs(self) -> list[Flow]:
        """Return the flow between each ordered pair of clusters, enabled or not."""
        return [self._flow(source, target) for source, target in permutations(self.clusters, 2)]

    def flows(self) -> list[Flow]:
        """Return the flows to run: those that are enabled, and those that send heartbeats.

        Heartbeats are sent in the opposite direction of each enabled flow, unless the file disables them: the enabled
        flow
        mirrors them, which shows at its target that it is alive.
        """
        enabled = {(flow.source, flow.target) for flow in self.pairs if flow.choice.is_enabled}

        def is_to_run(flow: Flow) -> bool:
            is_against = flow.choice.emits_heartbeats and (flow.target, flow.source) in enabled
            return flow.choice.is_enabled or flow.asks_for_heartbeats or is_against

        return [flow for flow in self.pairs if is_to_run(flow)]

    def unknown_keys(self) -> list[tuple[str, str | None]]:
        """Return keys without a meaning, each with the most similar known key, if there is one."""
        found = []
        for full in self.originals:
            prefix = self._prefix_of(full)
            key = full.removeprefix(prefix)
            if not self._has_meaning(prefix, key):
                near = nearest(key, _known_below(prefix))
                found.append((full, None if near in (None, key) else f"{prefix}{near}"))
        return found

    def check_together(self) -> list[str]:
        return [*self._wrong_names(), *self._wrong_choices()] or self._nothing_to_run()

    def _flow(self, source: str, target: str) -> Flow:
        flow, written = self._flow_of(self._parts, source, target), self._written_parts
        return flow if written is None else replace(flow, written=self._flow_of(written, source, target))

    def _flow_of(self, parts: _Parts, source: str, target: str) -> Flow:
        own = parts.get(f"{source}{ARROW}{target}.", {})
        ends = _cluster(parts, source), _cluster(parts, target)
        return Flow(source, target, parts.get("", {}), own, *ends, self.has_internal_rest)

    @cached_property
    def _parts(self) -> _Parts:
        return self._by_prefix(self.originals)

    @cached_property
    def _written_parts(self) -> _Parts | None:
        """Return the same with references to config providers; None if the file has none."""
        return self._by_prefix(self._written) if has_references(self._written) else None

    def _by_prefix(self, properties: Mapping[str, object]) -> _Parts:
        parts: dict[str, dict[str, str]] = {}
        for key, value in properties.items():
            prefix = self._prefix_of(key)
            parts.setdefault(prefix, {})[key.removeprefix(prefix)] = str(value)
        return parts

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        """Return the key prefixes of clusters and flows, the longest first, as one may begin with another."""
        names = [*self.clusters, *(ARROW.join(pair) for pair in permutations(self.clusters, 2))]
        return tuple(sorted((f"{name}." for name in names), key=len, reverse=True))

    def _prefix_of(self, key: str) -> str:
        return next((prefix for prefix in self._prefixes if key.startswith(prefix)), "")

    def _has_meaning(self, prefix: str, key: str) -> bool:
        if ARROW in prefix:
            return key in FlowChoice.settings() or is_for_connectors(key) or is_for_workers(key)
        if prefix:
            return WorkerConfig.knows(key) or is_to_connect(key)
        return (
            key in MirrorFile.settings()
            or key in FlowChoice.settings()
            or is_to_connect(key)
            or is_for_connectors_alone(key)
            or is_for_workers_alone(key)
        )

    def _wrong_names(self) -> Iterator[str]:
        known = ",".join(self.clusters)
        key = self.key_of("clusters")
        for alias in dict.fromkeys(self.clusters):
            if self.clusters.count(alias) > 1:
                yield f"Invalid value {known} for configuration {key}: {alias} occurs twice"
        for full in self.originals:
            if ARROW in full and ARROW not in self._prefix_of(full):
                yield (
                    f"Unknown flow in configuration {full}: a flow needs two clusters of {key}={known}; add the "
                    "missing one there, or correct this key"
                )

    def _wrong_choices(self) -> Iterator[str]:
        for flow in self.pairs:
            try:
                _ = flow.choice
            except ConfigError as error:
                yield from (f"{flow.name}: {message}" for message in error.messages)

    def _nothing_to_run(self) -> list[str]:
        enabled = [flow for flow in self.pairs if flow.choice.is_enabled]
        if not enabled:
            example = self.pairs[0].name if self.pairs else f"A{ARROW}B"
            return [f"No flow is enabled: set {example}.{FlowChoice.key_of('is_enabled')}=true for each flow to run"]
        used = dict.fromkeys(alias for flow in enabled for alias in (flow.source, flow.target))
        return [
            f'Missing required configuration "{alias}.{_BOOTSTRAP}": set it to brokers of the cluster {alias}'
            for alias in used
            if not _cluster(self._parts, alias).get(_BOOTSTRAP, "").strip()
        ]


def _cluster(parts: _Parts, alias: str) -> dict[str, str]:
    """Return the settings of a cluster: those that apply to every cluster, then its own."""
    shared = {key: value for key, value in parts.get("", {}).items() if is_to_connect(key)}
    return {**shared, **parts.get(f"{alias}.", {})}


def _known_below(prefix: str) -> set[str]:
    known = set(WorkerConfig.settings())
    if not prefix or ARROW in prefix:
        known |= connector_keys() | FlowChoice.settings().keys()
    return known if prefix else known | MirrorFile.settings().keys()
