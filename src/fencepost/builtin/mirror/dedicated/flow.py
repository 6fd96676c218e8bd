"""A flow of a MirrorMaker 2 file: its connectors, and the settings of these and of its worker."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from fencepost.api import HIGH, LOW, Config, one_of, setting
from fencepost.builtin.mirror.checkpoint.connector import MirrorCheckpointConnector
from fencepost.builtin.mirror.heartbeat import MirrorHeartbeatConnector
from fencepost.builtin.mirror.setting.clients import CLIENT_PREFIXES, FlowEnd, is_to_connect
from fencepost.builtin.mirror.setting.mirror_settings import MirrorSettings, OffsetSyncSettings
from fencepost.builtin.mirror.sink.connector import MirrorSinkConnector
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.config.connector import RuntimeChoice, SourceConnectorConfig
from fencepost.config.listener import Listener
from fencepost.config.override import TLS_FILES
from fencepost.config.worker import ExactlyOnceSource, WorkerConfig
from fencepost.embedded.jvm_options import environment_options, giving_way
from fencepost.kafka.setting.table import ClientKind

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
