"""`fencepost acls`: the rights that a worker and a connector need in Kafka, as a table or as commands.

The principals are those of the Kafka clients of workers, connectors and mirrors, from the clients' own settings.
"""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import typer

from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.builtin.mirror.checkpoint.connector import MirrorCheckpointConnector
from fencepost.builtin.mirror.dedicated import MirrorFile
from fencepost.builtin.mirror.heartbeat import MirrorHeartbeatConnector
from fencepost.builtin.mirror.setting.clients import FlowEnd
from fencepost.builtin.mirror.setting.mirror_settings import MirrorSettings
from fencepost.builtin.mirror.sink import MirrorSinkConnector
from fencepost.builtin.mirror.source.connector import MirrorSourceConnector
from fencepost.cli.client import read_worker_file
from fencepost.cli.cluster.rights import (
    EVERY,
    Acl,
    AnyAccess,
    ClientIdentity,
    ConnectorAccess,
    MirrorAccess,
    MirrorEnd,
    Need,
    Resource,
    SinkAccess,
    StreamAccess,
    WorkerAccess,
    ledger_acls,
    mirror_acls,
    query_acls,
    required_acls,
)
from fencepost.cli.output import aligned
from fencepost.cluster.info import ConnectorType
from fencepost.config import ConfigError
from fencepost.config.connector import (
    DeadLetterConfig,
    SinkChoice,
    SinkConnectorConfig,
    SourceConnectorConfig,
)
from fencepost.config.file import read_properties
from fencepost.config.worker import WorkerConfig
from fencepost.kafka.setting.client_settings import admin_conf, producer_conf, reader_conf
from fencepost.kafka.setting.table import ClientKind
from fencepost.plugin import PluginKind
from fencepost.plugin.kind import BUILT_IN, ROUTERS
from fencepost.worker.plan import (
    Client,
    ConnectorPlan,
    class_of,
    is_dataframe_config,
    is_query_config,
    is_stream_config,
    ledger_topic,
    looked_up,
    type_of_config,
)
from fencepost.worker.settings import WorkerSettings

_OF_WORKERS = ("worker", "producer", "consumer", "admin")
ROLES = (*_OF_WORKERS, "source", "target")
UNKNOWN_TOPIC = "TOPIC"
_TOPIC_KEY = "topic"
_CHOOSING = frozenset(
    {"transforms", "output.transforms", "output.topic.field"}
)  # settings that may choose a topic for each record


def _plain_name(transform: str) -> str:
    return transform.rpartition(".")[2].partition("$")[0]


_SAME_TOPIC = {_plain_name(name) for name in BUILT_IN[PluginKind.TRANSFORM]} - ROUTERS


@dataclass(frozen=True)
class Principals:
    """Names of principals: those given by role, or else those in a client's settings."""

    given: Mapping[str, str] = field(default_factory=dict)

    def of(self, role: str, conf: Mapping[str, Any]) -> ClientIdentity:
        """Return the access of a client with these settings (librdkafka's)."""
        cluster = str(conf.get("bootstrap.servers", ""))
        return ClientIdentity(cluster, self.given.get(role) or _principal(role, conf))

    def of_flow(self, source: str, target: str) -> "Principals":
        """Return the principals of a flow's clients: the principal of a cluster is that of all clients there."""
        at_source, at_target = self.given.get(source), self.given.get(target)
        clusters = {"source": at_source, **dict.fromkeys(("target", *_OF_WORKERS), at_target)}
        return Principals({**{role: name for role, name in clusters.items() if name}, **self.given})


def worker_access(config: WorkerConfig, principals: Principals, topics: Sequence[str] = ()) -> WorkerAccess:
    """Return the access of workers with this file; `topics` are examples of topics that they empty."""
    return WorkerAccess(
        principals.of("worker", WorkerSettings(config, "", "").admin_conf()),
        config.group_id,
        config.config_storage_topic,
        config.offset_storage_topic,
        config.status_storage_topic,
        _emptied(config, topics) if config.delete_committed_enabled else (),
    )


def _emptied(config: WorkerConfig, topics: Sequence[str]) -> tuple[str, ...]:
    patterns = [re.compile(pattern) for pattern in config.delete_committed_topics]
    named = tuple(name for name in topics if any(p.fullmatch(name) for p in patterns))
    return named or ((UNKNOWN_TOPIC,) if patterns else ())


def connector_access(
    config: WorkerConfig,
    connector: Mapping[str, str],
    principals: Principals,
    *,
    topics: Sequence[str] = (),
    has_initial_offsets: bool = False,
    is_prefixed: bool = False,
) -> ConnectorAccess:
    """Return the access of a source connector on workers with this config.

    Args:
        connector: Its config, including `name`.
        topics: The topics that it writes to; if empty, those of its config.

    Raises:
        ConfigError: The config is wrong.
    """
    plan = ConnectorPlan(config, connector)
    source, clients = SourceConnectorConfig(connector), plan.clients
    return ConnectorAccess(
        name=source.name,
        producer=principals.of("producer", clients.conf(Client.TASK_PRODUCER)),
        admin=principals.of("admin", clients.conf(Client.TASK_ADMIN)),
        consumer=principals.of("consumer", clients.conf(Client.TASK_READER)),
        offsets_topic=plan.offsets_topic,
        topics=tuple(topics) or topics_of(connector),
        tasks=source.tasks_max,
        lanes=plan.runtime.transaction_lanes,
        is_exactly_once=config.is_exactly_once,
        has_own_offsets=plan.may_have_own_offsets,
        has_initial_offsets=has_initial_offsets,
        dead_letters=source_dead_letters(connector),
        creates_topics=config.topic_creation_enable and bool(source.topic_creation()),
        is_prefixed=is_prefixed,
    )


def sink_access(
    config: WorkerConfig,
    connector: Mapping[str, str],
    principals: Principals,
    *,
    topics: Sequence[str] = (),
    has_initial_offsets: bool = False,
) -> SinkAccess:
    """Return the access of a sink connector on workers with this config.

    `topics`: what it reads; by default, the topics of its config. Raises ConfigError if the config is wrong.
    """
    sink, clients = SinkConnectorConfig(connector), ConnectorPlan(config, connector).clients
    return SinkAccess(
        name=sink.name,
        consumer=principals.of("consumer", clients.sink_conf(sink.name, 0)),
        producer=principals.of("producer", clients.conf(Client.PLAIN_PRODUCER)),
        admin=principals.of("admin", clients.conf(Client.SINK_ADMIN)),
        group=clients.group(sink.name),
        topics=tuple(topics) or tuple(sink.topics) or (UNKNOWN_TOPIC,),
        dead_letters=sink.dead_letters_topic,
        resends=SinkChoice(connector).resend_topic or "",
        has_initial_offsets=has_initial_offsets,
    )


def stream_access(
    config: WorkerConfig,
    connector: Mapping[str, str],
    principals: Principals,
    *,
    topics: Sequence[str] = (),
    has_initial_offsets: bool = False,
    is_prefixed: bool = False,
) -> StreamAccess:
    """Return the access of a stream connector on workers with this config.

    Args:
        topics: The topics that it writes to; if empty, those of its config. They also stand for the topics that it
            reads if the config has only a pattern for these.

    Raises:
        ConfigError: The config is wrong.
    """
    named = topics if "topics" not in connector else ()
    reads = sink_access(config, connector, principals, topics=named, has_initial_offsets=has_initial_offsets)
    output = tuple(topics) or _output_topics(connector, reads.topics)
    has_many_ids = is_dataframe_config(connector)  # one for each input partition
    writes = connector_access(config, connector, principals, topics=output, is_prefixed=is_prefixed or has_many_ids)
    return StreamAccess(reads, replace(writes, dead_letters=""))


def _output_topics(connector: Mapping[str, str], read: Sequence[str]) -> tuple[str, ...]:
    """Return the config's output topics, or a placeholder if a transform may choose others."""
    pattern = connector.get("output.topic")
    if not pattern or not _CHOOSING.isdisjoint(connector):
        return (UNKNOWN_TOPIC,)
    return tuple(dict.fromkeys(pattern.replace("${topic}", topic) for topic in read))


def source_dead_letters(connector: Mapping[str, str]) -> str:
    """Return the dead letter topic of a source; empty if it has none, or fails instead of writing there."""
    dead_letters, source = DeadLetterConfig(connector), SourceConnectorConfig(connector)
    return dead_letters.dead_letters_topic if source.errors_tolerance.lower() == "all" else ""


def is_sink(connector: Mapping[str, str]) -> bool:
    """Say whether a config is a sink's: by its class or, if that is not installed, by keys that only sinks have."""
    kind = type_of_config(connector)
    if kind is ConnectorType.UNKNOWN:
        return any(SinkConnectorConfig.key_of(name) in connector for name in ("topics", "topics_regex"))
    return kind is ConnectorType.SINK


def topics_of(connector: Mapping[str, str]) -> tuple[str, ...]:
    """Return the topic that a config names; a placeholder if it names none, or a transform may choose another."""
    source = SourceConnectorConfig(connector)
    types = [_plain_name(spec.type) for spec in source.transform_specs()]
    topic = connector.get(_TOPIC_KEY)
    return (topic,) if topic and all(name in _SAME_TOPIC for name in types) else (UNKNOWN_TOPIC,)


def _principal(role: str, conf: Mapping[str, Any]) -> str:
    """Return the principal of a client with Kafka's defaults (the broker applies `ssl.principal.mapping.rules`)."""
    protocol = str(conf.get("security.protocol", "plaintext")).lower()
    if protocol.startswith("sasl_"):
        name = conf.get("sasl.username")
        return f"User:{name}" if name else f"User:{role.upper()}"
    if protocol == "ssl" and any(key in conf for key in _CERTIFICATES):
        return f"User:{role.upper()}"
    return "User:ANONYMOUS"


_CERTIFICATES = ("ssl.keystore.location", "ssl.certificate.location", "ssl.certificate.pem")


def parse_principals(texts: Sequence[str], clusters: Sequence[str] = ()) -> Principals:
    """Parse `role=User:name`. In a file of mirrors, the alias of a cluster is a role, too. Raises ConfigError."""
    given, roles = {}, (*ROLES, *clusters)
    for text in texts:
        role, equals, principal = text.partition("=")
        if role not in roles or not equals:
            raise ConfigError(f"--principal {text}: write it as ROLE=User:NAME; roles are {', '.join(roles)}")
        if not principal.partition(":")[2]:
            raise ConfigError(f"--principal {text}: a principal has a type and a name, such as User:{principal}")
        given[role] = principal
    return Principals(given)


_NO_NAME = re.compile(r"[^a-zA-Z0-9._-]")


def mirror_access(
    connector: Mapping[str, str], base: ConnectorAccess, principals: Principals, topics: Sequence[str] = ()
) -> tuple[ConnectorAccess, MirrorAccess] | None:
    """Return the access of a mirror's connector, as any source and as a mirror; None for any other connector.

    Args:
        base: Its access as any source, except for its topics.
        topics: The topics of the source cluster; if empty, those of its config.

    Raises:
        ConfigError: The config is wrong.
    """
    mirror = _mirror_of(connector)
    if mirror is None:
        return None
    policy, alias = mirror.policy(), mirror.source_cluster_alias
    source, target = (_end(mirror, each, principals) for each in FlowEnd)
    own = MirrorAccess(base.name, source, target, base.producer, base.admin)
    if isinstance(mirror, MirrorHeartbeatConnector):
        topic = policy.heartbeats_topic()
        return replace(base, topics=(topic,), tasks=1), replace(own, made=topic)
    assert isinstance(mirror, MirrorSourceConnector | MirrorCheckpointConnector)
    named = tuple(topics) or _names(mirror.topics) or (UNKNOWN_TOPIC,)
    own = replace(
        own,
        topics={topic: policy.format_remote_topic(alias, topic) for topic in named},
        syncs=mirror.offset_syncs_topic() if mirror.emit_offset_syncs else "",
        has_syncs_at_source=mirror.offset_syncs_cluster() is FlowEnd.SOURCE,
    )
    if isinstance(mirror, MirrorCheckpointConnector):
        topic, groups = policy.checkpoints_topic(alias), _names(mirror.groups) or (EVERY,)
        own = replace(own, made=topic, groups=groups, commits_groups=mirror.syncs_group_offsets)
        return replace(base, topics=(topic,)), own
    held = mirror.held(base.name).group if isinstance(mirror, MirrorSinkConnector) else ""
    own = replace(
        own,
        mirrors=True,
        group=held,
        has_configs=mirror.sync_topic_configs_enabled,
        has_acls=mirror.sync_topic_acls_enabled,
    )
    return replace(base, topics=tuple(own.topics.values())), own


def _mirror_of(connector: Mapping[str, str]) -> MirrorSettings | None:
    try:
        found = class_of(connector)
    except ConfigError:
        return None
    return found(connector) if issubclass(found, MirrorSettings) else None


def _names(patterns: Sequence[str]) -> tuple[str, ...]:
    """Return the names in a list; nothing if it has a pattern, whose names are unknown."""
    return () if any(_NO_NAME.search(each) for each in patterns) else tuple(patterns)


def _end(mirror: MirrorSettings, cluster: FlowEnd, principals: Principals) -> MirrorEnd:
    role = cluster.value
    return MirrorEnd(
        principals.of(role, admin_conf(mirror.client(cluster, ClientKind.ADMIN, "")).conf),
        principals.of(role, reader_conf(mirror.client(cluster, ClientKind.CONSUMER, "")).conf),
        principals.of(role, producer_conf(mirror.client(cluster, ClientKind.PRODUCER, "")).conf),
    )


_TOOL = ("kafka-acls.sh", "--bootstrap-server")
_ADMIN_FILE = "admin.properties"
_HEADINGS = ("principal", "resource", "name", "operation", "need", "for")


def print_acls(
    worker: Path,
    connector: Path | None,
    *,
    topics: Sequence[str] = (),
    principals: Sequence[str] = (),
    as_commands: bool = False,
    is_prefixed: bool = False,
) -> None:
    """Print the list, without a request to Kafka. Raises ConfigError if a file cannot be read or is wrong.

    If `worker` is a MirrorMaker 2 file, the list has a part for each flow, with its worker and connectors.
    """
    asked = _Asked(Principals(), topics, is_prefixed)
    if MirrorFile.key_of("clusters") not in read_properties(worker):
        asked = replace(asked, principals=parse_principals(principals))
        given = [] if connector is None else [read_connector(connector)]
        parts = {"": asked.rights(WorkerConfig(read_worker_file(worker)), given)}
    elif connector is None:
        file = MirrorFile.load(worker)
        asked = replace(asked, principals=parse_principals(principals, file.clusters))
        parts = dict(asked.of_flows(file))
    else:
        raise ConfigError(f"{worker} already defines the connectors: remove {connector} from the command")
    for flow, listed in parts.items():
        if flow:
            typer.echo(f"# {flow}\n")
        for line in commands(listed) if as_commands else table(listed):
            typer.echo(line)


def connector_rights(worker: WorkerConfig, connector: Mapping[str, str], topics: Iterable[str]) -> Sequence[Acl]:
    """Return the rights of a worker and one connector that writes to these topics. Raises ConfigError."""
    return _Asked(Principals(), sorted(topics), is_prefixed=False).rights(worker, [(dict(connector), False)])


@dataclass(frozen=True)
class _Asked:
    """What the command line adds to the files."""

    principals: Principals
    topics: Sequence[str]
    is_prefixed: bool

    def of_flows(self, file: MirrorFile) -> Iterator[tuple[str, Sequence[Acl]]]:
        """Yield the rights of each flow of a file, with its name."""
        for number, flow in enumerate(file.flows()):
            own = flow.connectors().values()
            running = [(config, False) for config in own if config[MirrorSettings.key_of("is_enabled")] == "true"]
            of_flow = replace(self, principals=self.principals.of_flow(flow.source, flow.target))
            yield flow.name, of_flow.rights(WorkerConfig(flow.worker_properties(number)), running)

    def rights(self, config: WorkerConfig, connectors: Iterable[tuple[dict[str, str], bool]]) -> Sequence[Acl]:
        """Return the rights of a worker and of connectors; each comes with whether it has initial offsets."""
        found: list[AnyAccess] = []
        others: list[Acl] = []
        for stored, has_initial_offsets in connectors:
            properties = looked_up(config, stored).require_now()
            access = self._access(config, properties, has_initial_offsets=has_initial_offsets)
            mirror = None
            if isinstance(access, StreamAccess) and is_query_config(properties):
                from fencepost.spark.write.decision import PREFIX  # imports Kafka's clients
                from fencepost.spark.write.options import WriterConfig

                decisions = str(WriterConfig.settings()["offsets.topic"].default)
                others += query_acls(access, decisions, PREFIX, properties.get(SqlStream.key_of("commit_group")))
            if isinstance(access, ConnectorAccess):
                mirror = mirror_access(properties, access, self.principals, self.topics)
                others += ledger_acls(access, ledger_topic(ConnectorPlan.of_values(config, properties)))
            found.append(access if mirror is None else mirror[0])
            others += [] if mirror is None else mirror_acls(mirror[1])
        return required_acls(worker_access(config, self.principals, self.topics), found, others)

    def _access(self, config: WorkerConfig, properties: dict[str, str], *, has_initial_offsets: bool) -> AnyAccess:
        given = self.principals
        how: dict[str, Any] = {"topics": self.topics, "has_initial_offsets": has_initial_offsets}
        if is_stream_config(properties):
            return stream_access(config, properties, given, is_prefixed=self.is_prefixed, **how)
        if is_sink(properties):
            return sink_access(config, properties, given, **how)
        return connector_access(config, properties, given, is_prefixed=self.is_prefixed, **how)


def read_connector(path: Path) -> tuple[dict[str, str], bool]:
    """Return a connector's config, in the format of `POST /connectors` or flat, and whether it has initial offsets.

    Raises ConfigError.
    """
    try:
        body = json.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path}: is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise ConfigError(f"{path}: must be a JSON object, as for POST /connectors")
    config = body.get("config", body)
    if not isinstance(config, dict):
        raise ConfigError(f"{path}: config must be a JSON object")
    name = body.get("name", config.get("name"))
    if not name:
        raise ConfigError(f"{path}: name is missing; transactional ids contain it")
    properties = {str(k): _text(v) for k, v in config.items() if v is not None}
    return {**properties, "name": str(name)}, bool(body.get("initial_offsets"))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def table(listed: Sequence[Acl]) -> Iterator[str]:
    """Yield the lines of a table for each Kafka cluster."""
    for cluster, own in groupby(listed, key=lambda acl: acl.access.cluster):
        yield f"Kafka at {cluster}"
        yield ""
        yield from aligned([_HEADINGS, *(_row(acl) for acl in own)])
        yield ""
    yield from _remarks(listed)


def _row(acl: Acl) -> tuple[str, ...]:
    name = f"{acl.name}*" if acl.is_prefix else acl.name
    need = " ".join((acl.need.value, acl.note)).strip() if acl.need is Need.IMPLIED else acl.need.value
    why = f"{acl.reason}; {acl.note}" if acl.note and acl.need is not Need.IMPLIED else acl.reason
    return acl.access.principal, acl.resource.value, name, acl.operation.value, need, why


def _remarks(listed: Sequence[Acl]) -> Iterator[str]:
    if any(acl.name == UNKNOWN_TOPIC and acl.resource is Resource.TOPIC for acl in listed):
        yield (
            f"{UNKNOWN_TOPIC} stands for the connector's topics, or those of delete.committed.topics: name each of "
            "them with --topic."
        )


def commands(listed: Sequence[Acl]) -> Iterator[str]:
    """Yield a shell script: required rights as commands, all others as comments."""
    for remark in _remarks(listed):
        yield f"# {remark}"
    yield from (_command(own) for own in _by_target(acl for acl in listed if acl.need is Need.REQUIRED))
    for own in _by_target(acl for acl in listed if acl.need is Need.OPTIONAL):
        yield f"# optional, {own[0].note}:"
        yield f"# {_command(own)}"
    for acl in listed:
        if acl.need is Need.IMPLIED:
            target = f"{acl.resource.value} {acl.name}"
            yield f"# implied {acl.note}: {acl.operation.value} on {target} for {acl.access.principal}"


def _by_target(listed: Iterable[Acl]) -> list[list[Acl]]:
    found: dict[tuple[object, ...], list[Acl]] = {}
    for acl in listed:
        found.setdefault(acl.target, []).append(acl)
    return list(found.values())


def _command(own: Sequence[Acl]) -> str:
    first = own[0]
    access: ClientIdentity = first.access
    words = [*_TOOL, access.cluster, "--command-config", _ADMIN_FILE, "--add", "--allow-principal", access.principal]
    for acl in own:
        words += ["--operation", acl.operation.value]
    if first.is_prefix:
        words += ["--resource-pattern-type", "prefixed"]
    words += [f"--{first.resource.value}", *([] if first.resource is Resource.CLUSTER else [first.name])]
    return shlex.join(words)
