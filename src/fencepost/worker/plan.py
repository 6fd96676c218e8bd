"""What a connector's config says, parsed once: validation, starts of tasks and requests ask a connector's plan.

Types of connectors are known if their classes are installed here.
"""

import contextlib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from functools import cached_property, partial
from typing import Any, TypeAlias

from fencepost.api import (
    Connector,
    DataFrameConnector,
    DataFrameStream,
    RetriableError,
    SinkConnector,
    SourceConnector,
    StreamConnector,
)
from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.cluster.info import ConnectorType
from fencepost.config import ConfigError
from fencepost.config.client import combined
from fencepost.config.connector import (
    CONVERTERS,
    OUTPUT,
    PLUGIN_VERSION,
    ConnectorConfig,
    RuntimeChoice,
    SinkConnectorConfig,
    SourceConnectorConfig,
)
from fencepost.config.reference import RawConfig, given_values, has_references, names_in, references, replaced
from fencepost.config.worker import WorkerConfig
from fencepost.hook.mirror import MirrorConnector, MirrorTask, OffsetsInGroup
from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.setting.client_settings import chosen_client, client_faults
from fencepost.kafka.setting.table import BATCH, LIBRDKAFKA
from fencepost.kafka.setting.translation import SettingsError, Translated
from fencepost.plugin import PluginKind, VersionUnknownError, registry
from fencepost.reference import LookedUp, providers_of
from fencepost.storage.snapshot import ClusterSnapshot
from fencepost.task.channel.task_spec import ClientRecipe

AnyStream: TypeAlias = StreamConnector | DataFrameStream | SqlStream
"""The classes of connectors that read topics and write to topics."""
_CLASS, _VERSION = (ConnectorConfig.key_of(name) for name in ("connector_class", "connector_version"))


def class_of(config: RawConfig) -> type[Any]:
    """Return the class that a config names, in the version that it asks for. Raises ConfigError if it is not found."""
    return registry().find(PluginKind.CONNECTOR, config.get(_CLASS) or "", config.get(_VERSION))


def typical_class_of(config: RawConfig) -> type[Any]:
    """Return the class that a config names, or another version of it, which has the same type. Raises ConfigError."""
    try:
        return class_of(config)
    except VersionUnknownError as error:
        return error.some


def version_of(config: RawConfig) -> str | None:
    """Return the version of the class that runs with this config; None if it is not installed here."""
    try:
        return registry().version_of(PluginKind.CONNECTOR, class_of(config))
    except ConfigError:
        return None


def type_of(snapshot: ClusterSnapshot, name: str) -> ConnectorType:
    """Return the type of a connector; unknown if its class is not installed here."""
    return type_of_config(snapshot.connectors.get(name, {}))


def type_of_config(config: RawConfig) -> ConnectorType:
    """Return the type of a connector with this config."""
    try:
        found = typical_class_of(config)
    except ConfigError:
        return ConnectorType.UNKNOWN
    if issubclass(found, SinkConnector):
        return ConnectorType.SINK
    return ConnectorType.SOURCE if issubclass(found, SourceConnector) else ConnectorType.UNKNOWN


def is_stream(snapshot: ClusterSnapshot, name: str) -> bool:
    """Say whether a connector, if its class is installed, writes what it reads in its own transactions."""
    return is_stream_config(snapshot.connectors.get(name, {}))


def is_stream_config(config: RawConfig) -> bool:
    """Say the same of a connector with this config."""
    return kind_of_config(config) == "stream"


def is_query_config(config: RawConfig) -> bool:
    """Say whether a connector with this config, if its class is installed, is a streaming query of Spark's."""
    try:
        return issubclass(typical_class_of(config), SqlStream)
    except ConfigError:
        return False


def kind_of_config(config: RawConfig) -> str | None:
    """Return the word for what a connector with this config is for; None if its class is not installed here."""
    try:
        found = typical_class_of(config)
    except ConfigError:
        return None
    if issubclass(found, AnyStream):
        return "stream"
    if is_mirror(found) or found.__module__.startswith("fencepost.builtin.mirror."):
        return "mirror"
    if issubclass(found, SinkConnector):
        return "sink"
    return "source" if issubclass(found, SourceConnector) else None


def is_mirror(connector: type[Any]) -> bool:
    """Say whether the tasks of a class are those of a mirror."""
    task = getattr(connector, "task", None)
    return isinstance(task, type) and issubclass(task, MirrorTask)


def refusal_of_change(before: RawConfig, after: RawConfig) -> str | None:
    """Return why a connector's class may not change like this; None if it may, or a class is not installed here."""
    try:
        former, new = class_of(before), class_of(after)
    except ConfigError:
        return None
    return new.refusal_to_follow(former) if issubclass(new, Connector) else None


def is_dataframe(snapshot: ClusterSnapshot, name: str) -> bool:
    """Say whether a connector reads or writes DataFrames. Raises ConfigError if its class is not installed here."""
    return is_dataframe_config(snapshot.connectors.get(name, {}))


def is_dataframe_config(config: RawConfig) -> bool:
    """Say the same of a connector with this config."""
    return bool(getattr(typical_class_of(config), "is_dataframe", False))


def has_dataframes(snapshot: ClusterSnapshot) -> bool:
    """Say whether any connector whose class is installed here reads or writes DataFrames."""
    for name in snapshot.connectors:
        with contextlib.suppress(ConfigError):
            if is_dataframe(snapshot, name):
                return True
    return False


def converters_of(config: RawConfig) -> Mapping[str, str]:
    """Return a class's own converters, which replace the worker's; none if the class is not found."""
    try:
        return dict(getattr(typical_class_of(config), "converters", {}))
    except ConfigError:
        return {}


def defines_transactions(config: RawConfig) -> bool:
    """Say whether a source's class defines its transactions; False if the class is not found."""
    try:
        return bool(getattr(typical_class_of(config), "defines_transactions", False))
    except ConfigError:
        return False


def is_source(snapshot: ClusterSnapshot, connector: str) -> bool:
    """Say whether a connector is a source whose class is installed here."""
    return type_of(snapshot, connector) is ConnectorType.SOURCE


log = logging.getLogger(__name__)

PRODUCER, CONSUMER, ADMIN = "producer.", "consumer.", "admin."
BOOTSTRAP = WorkerConfig.key_of("bootstrap_servers")
LEDGER_TOPIC = RuntimeChoice.key_of("ledger_topic")
RECENT_S = 10.0
"""How old a value may be that was looked up for the same start or request."""
_CLIENT = "client"
_CHOICE = RuntimeChoice.key_of("producer_client")
_OFFSETS_TOPIC = SourceConnectorConfig.key_of("offsets_storage_topic")
NO_EFFECT = "it has no effect, because the worker's file names and sets this converter: name the converter as well"
_FIXED: Mapping[str, str] = {
    ConnectorConfig.key_of("name"): "the name is part of the keys in Kafka",
    ConnectorConfig.key_of("connector_class"): "every worker must know the class",
    ConnectorConfig.key_of("connector_version"): "every worker must know the class",
    ConnectorConfig.key_of("config_action_reload"): "it says what happens when looked-up values expire",
    _OFFSETS_TOPIC: "another topic would have no offsets, and records would be written twice",
    "producer.override.bootstrap.servers": "earlier tasks are fenced where they wrote",
    "consumer.override.group.id": "another group would have no offsets, and records would be read twice",
    "consumer.override.bootstrap.servers": "the group's offsets are where earlier tasks committed them",
    **dict.fromkeys(RuntimeChoice.settings(), "workers read it before anything is looked up"),
}
"""Settings that cannot be references: workers read or compare them without looking anything up."""


class Client(StrEnum):
    """The Kafka clients of a connector. `_RECIPES` says what each is made of."""

    TASK_PRODUCER = auto()  # of a source's tasks: transactional if this worker has exactly-once on
    PLAIN_PRODUCER = auto()  # without transactions, of a sink's dead letters
    FENCING = auto()  # transactional on any worker; which client the config chooses does not matter
    TASK_ADMIN = auto()  # of the cluster that the producers write to
    TASK_READER = auto()  # of the connector's own offsets topic, which is in that cluster, too
    SINK = auto()  # the member of a sink's group
    RANGE = auto()  # with which executors read the ranges of a sink's epochs
    SINK_ADMIN = auto()  # of the cluster that a sink reads
    DEAD_LETTER_READER = auto()  # of committed dead letters, where the producers write


@dataclass(frozen=True)
class ConnectorClients:
    """The Kafka clients of a connector: what the worker's file and the connector's config say about each.

    `look_up` replaces the references of a part of the config, when a client's settings are asked for.
    """

    worker: WorkerConfig = field(repr=False)
    config: RawConfig = field(repr=False)
    look_up: Callable[[RawConfig], RawConfig] = field(repr=False)

    def recipe(self, client: Client, *names: str) -> ClientRecipe:
        """Return what a client is made of, with references. `names`: its group, and its client id, if it has them."""
        kind, worker, own = _RECIPES[client](self)
        return ClientRecipe(kind, worker, own, names)

    def conf(self, client: Client, *names: str) -> dict[str, Any]:
        """Return librdkafka's settings of a client."""
        return logged(self.recipe(client, *names).translated(self.look_up))

    def sink_conf(self, connector: str, task: int) -> dict[str, Any]:
        """Return the settings of a sink's task: of the group's member that it is."""
        return self.conf(Client.SINK, own_group(connector), sink_client_id(connector, task))

    @property
    def producer_properties(self) -> dict[str, object]:
        """Return Java's properties of the connector's producers."""
        return combined(self.shared(PRODUCER), self.look_up(self.producer_overrides))

    @property
    def consumer_properties(self) -> dict[str, object]:
        """Return Java's properties of a sink's consumers."""
        return combined(self.shared(CONSUMER), self.own(CONSUMER))

    def shared(self, prefix: str) -> dict[str, object]:
        """Return Java's properties that all connectors' clients of a kind get from the worker's file."""
        return {**self.worker.internal_client_properties, **self.worker.client_properties(prefix)}

    def overrides(self, prefix: str) -> dict[str, str]:
        """Return the connector's own settings of a kind of client, without their prefix."""
        prefix = f"{prefix}override."
        return {k.removeprefix(prefix): v for k, v in self.config.items() if v is not None and k.startswith(prefix)}

    def own(self, prefix: str) -> dict[str, str]:
        """Return the same with their references replaced."""
        return given_values(self.look_up(self.overrides(prefix)))

    @property
    def producer_overrides(self) -> dict[str, str]:
        """Return the connector's own settings of its producers, with its choice of client."""
        choice = self.config.get(_CHOICE)
        return {**self.overrides(PRODUCER), **({} if choice is None else {_CLIENT: choice})}

    @property
    def target(self) -> str:
        """Return the servers of the cluster that the connector's producers write to."""
        return str({**self.shared(PRODUCER), **self.overrides(PRODUCER)}[BOOTSTRAP])

    def group(self, connector: str) -> str:
        """Return the consumer group of a sink."""
        return self.own(CONSUMER).get("group.id", "").strip() or own_group(connector)


_Parts = tuple[str, Mapping[str, object], Mapping[str, str]]


def _of_target(kind: str, prefix: str, clients: ConnectorClients) -> _Parts:
    return kind, _there(clients, prefix), {**_servers(clients), **clients.overrides(prefix)}


def _sink_admin(clients: ConnectorClients) -> _Parts:
    # `admin.override.bootstrap.servers` is not used: it may name the cluster of the dead letters.
    reads = {BOOTSTRAP: clients.shared(CONSUMER)[BOOTSTRAP]}
    own = {**_without(clients.overrides(ADMIN), BOOTSTRAP), **_servers(clients, CONSUMER)}
    return "admin", {**clients.shared(ADMIN), **reads}, own


def _dead_letter_reader(clients: ConnectorClients) -> _Parts:
    committed = {"isolation.level": "read_committed"}
    own = _without(clients.overrides(CONSUMER), BOOTSTRAP, "group.id")
    return "range", {**_there(clients, CONSUMER), **committed}, {**own, **_servers(clients), **committed}


_RECIPES: Mapping[Client, Callable[[ConnectorClients], _Parts]] = {
    Client.TASK_PRODUCER: lambda clients: (
        "transactional" if clients.worker.is_exactly_once else "producer",
        clients.shared(PRODUCER),
        clients.producer_overrides,
    ),
    Client.PLAIN_PRODUCER: lambda clients: ("producer", clients.shared(PRODUCER), clients.producer_overrides),
    Client.FENCING: lambda clients: (
        "transactional",
        _without(clients.shared(PRODUCER), _CLIENT),
        _without(clients.overrides(PRODUCER), _CLIENT),
    ),
    Client.TASK_ADMIN: partial(_of_target, "admin", ADMIN),
    Client.TASK_READER: partial(_of_target, "reader", CONSUMER),
    Client.SINK: lambda clients: ("sink", clients.shared(CONSUMER), clients.overrides(CONSUMER)),
    Client.RANGE: lambda clients: ("range", clients.shared(CONSUMER), clients.overrides(CONSUMER)),
    Client.SINK_ADMIN: _sink_admin,
    Client.DEAD_LETTER_READER: _dead_letter_reader,
}


def _there(clients: ConnectorClients, prefix: str) -> dict[str, object]:
    """Return the worker's properties of a kind of client, for the brokers that its file gives to producers."""
    return {**clients.shared(prefix), BOOTSTRAP: clients.shared(PRODUCER)[BOOTSTRAP]}


def _servers(clients: ConnectorClients, prefix: str = PRODUCER) -> dict[str, str]:
    """Return the servers that the connector's own settings of a kind of client name; empty if they name none."""
    return {key: value for key, value in clients.overrides(prefix).items() if key == BOOTSTRAP}


def _without(properties: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in properties.items() if key not in keys}


@dataclass(frozen=True)
class ConnectorPlan:
    """A connector's config, and what follows from it on workers with this file. Each part is made when it is asked for.

    `config` has references. By default the values are looked up with the part that needs them, and those of the last
    seconds are taken again; `answers` has them if they were looked up already. What looks up raises ConfigError, or
    KafkaUnavailableError if a store is away.
    """

    worker: WorkerConfig = field(repr=False)
    config: RawConfig = field(repr=False)
    answers: LookedUp | None = field(default=None, repr=False)

    @classmethod
    def of_values(cls, worker: WorkerConfig, values: RawConfig) -> "ConnectorPlan":
        """Return the plan of a config whose references are replaced: they must not be replaced again."""
        return cls(worker, values, LookedUp(values, {}, {}))

    def look_up(self, part: RawConfig) -> RawConfig:
        """Return a part of the config with its references replaced."""
        if self.answers is None:
            return known(self.worker, part)
        found = self.answers.found
        return {key: None if value is None else replaced(key, value, found) for key, value in part.items()}

    @cached_property
    def values(self) -> RawConfig:
        """Return the config with its references replaced."""
        return known(self.worker, self.config) if self.answers is None else self.answers.values

    @cached_property
    def given(self) -> dict[str, str]:
        """Return the values that are not null."""
        return given_values(self.values)

    @cached_property
    def effective(self) -> dict[str, str | None]:
        """Return the values, completed with the class's or the worker's converters."""
        return with_converters(self.values, self.worker)

    @cached_property
    def runtime(self) -> RuntimeChoice:
        """Return what it says to workers; nothing of it can be a reference."""
        return RuntimeChoice(given_values(self.config))

    @cached_property
    def sink(self) -> SinkConnectorConfig:
        return SinkConnectorConfig(self.given)

    @cached_property
    def clients(self) -> ConnectorClients:
        return ConnectorClients(self.worker, self.config, self.look_up)

    @property
    def offsets_topic(self) -> str:
        """Return the topic that the connector's offsets are written to."""
        return self.config.get(_OFFSETS_TOPIC) or self.worker.offset_storage_topic

    @property
    def may_have_own_offsets(self) -> bool:
        """Say whether the config names another offsets topic, or other brokers. No cluster is asked."""
        is_elsewhere = {*names_in(self.clients.target)} != {*self.worker.bootstrap_servers}
        return is_elsewhere or self.offsets_topic != self.worker.offset_storage_topic

    def offsets_in_group(self, connector: str) -> OffsetsInGroup | None:
        """Return how a group of the target cluster keeps a source's offsets; None if a topic does."""
        try:
            found = class_of(self.config)
        except ConfigError:  # it is not installed here
            return None
        if not issubclass(found, MirrorConnector) or found.offsets_in_group is MirrorConnector.offsets_in_group:
            return None
        return found(self.given).offsets_in_group(connector)


def ledger_topic(plan: ConnectorPlan) -> str:
    """Return the topic of a source's ledger; empty if it has none.

    A source inherits the topic of the worker's file if it can have a ledger.
    """
    if not plan.worker.is_exactly_once:
        return ""
    own, topic = plan.config.get(LEDGER_TOPIC), plan.worker.ledger_topic.strip()
    if own is not None or not topic:
        return (own or "").strip()
    try:
        return "" if why_no_ledger(plan, class_of(plan.config)) else topic
    except ConfigError:
        return ""  # the class is not installed here


def why_no_ledger(plan: ConnectorPlan, connector: type[Connector]) -> str | None:
    """Return why a connector of this class cannot have a ledger; None if it can."""
    if not issubclass(connector, SourceConnector):
        return "only sources have a ledger; remove it"
    if issubclass(connector, DataFrameConnector) or is_mirror(connector):
        return "DataFrame sources and mirrors have no ledger; remove it"
    if not plan.worker.is_exactly_once:
        return "an entry is part of a transaction: set exactly.once.source.support=enabled in the worker's file"
    try:
        client = chosen_client(plan.clients.producer_properties)
        faults = client_faults({**plan.clients.producer_properties, _CLIENT: BATCH})
    except SettingsError:
        return None  # shown with the key that has them
    if client == LIBRDKAFKA:
        return f"the ledger needs the batch client: remove {_CHOICE}={LIBRDKAFKA}"
    lacking = "; ".join(f"{name}: {reason}" for name, reason in faults.items())
    return f"the batch client, which the ledger needs, lacks {lacking}" if lacking else None


def fixed_reference_faults(config: RawConfig) -> dict[str, str]:
    """Return a text for each key whose value is a reference and cannot be one."""
    return {
        key: f"{key}: {one.shown_in(str(config[key]))} is not possible here, because {why}: write the value itself"
        for key, why in _FIXED.items()
        for one in list(references(key, config.get(key)))[:1]
    }


def refuse_fixed_references(config: RawConfig) -> None:
    """Raise ConfigError if a config has such references. Another worker's REST may have accepted them."""
    if faults := fixed_reference_faults(config):
        raise ConfigError(list(faults.values()))


def looked_up(worker: WorkerConfig, config: RawConfig, max_age_s: float = 0.0) -> LookedUp:
    """Look up the references of a connector's or a task's config with the providers of the worker's file."""
    if not has_references(config):
        return LookedUp(config, {}, {})
    return providers_of(worker.originals).look_up(config, max_age_s)


def known(worker: WorkerConfig, config: RawConfig) -> RawConfig:
    """Return a config with its references replaced by values that were looked up not long ago.

    Raises ConfigError; KafkaUnavailableError if a store is away, as the connector's cluster cannot be asked then.
    """
    try:
        return looked_up(worker, config, RECENT_S).require()
    except RetriableError as error:
        raise KafkaUnavailableError(str(error)) from error


def own_group(connector: str) -> str:
    """Return the consumer group of a sink whose config names none."""
    return f"connect-{connector}"


def query_owner(worker: WorkerConfig, connector: str) -> str:
    """Return what the checkpoint of a streaming query, and the topic of its decisions, name as its connector."""
    return f"connector {connector} of the workers with group.id {worker.group_id}"


def sink_client_id(connector: str, task: int) -> str:
    """Return the client id of a task's group member, as in Kafka Connect; the user may override it."""
    return f"connector-consumer-{connector}-{task}"


def with_converters(connector_config: RawConfig, config: WorkerConfig) -> dict[str, str | None]:
    """Return a connector's config, completed with its class's converters, or else the worker's.

    A converter of the worker's file has the settings of that file only, as in Kafka Connect: else its password would go
    where the connector says. If the file has none, the connector's are kept, as they always were.
    """
    effective = dict(connector_config)
    of_class = converters_of(connector_config)
    for key in CONVERTERS:
        if effective.get(key) is None and key in of_class:
            effective[key] = of_class[key]
        elif effective.get(key) is None:
            effective[key] = str(config.originals.get(key) or type(config).settings()[key].default)
            inherited = config.with_prefix(f"{key}.")
            if inherited.keys() - {PLUGIN_VERSION}:
                for own in _settings_without_class(connector_config, key):
                    del effective[own]
            if effective.get(f"{key}.{PLUGIN_VERSION}") is not None:
                inherited.pop(PLUGIN_VERSION, None)
            effective.update({f"{key}.{k}": str(v) for k, v in inherited.items()})
    return effective


def _settings_without_class(config: RawConfig, converter: str) -> list[str]:
    """Return a connector's settings of a converter that it does not name, also of its output's."""
    unnamed = tuple(f"{each}." for each in (converter, f"{OUTPUT}{converter}") if config.get(each) is None)
    return [key for key in config if key.startswith(unnamed) and not key.endswith(f".{PLUGIN_VERSION}")]


_named: set[str] = set()
_OF_A_CLIENT = re.compile(r"^Ignoring the \w+ setting ")


def logged(translated: Translated) -> dict[str, Any]:
    """Return the settings, after logging their warnings, each once."""
    for warning in translated.warnings:
        named = _OF_A_CLIENT.sub("", warning)  # the worker's settings go to clients of every kind: log each once
        if named not in _named:
            _named.add(named)
            log.warning("%s", warning)
    return dict(translated.conf)
