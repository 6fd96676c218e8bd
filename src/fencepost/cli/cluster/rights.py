"""Lists the access rights that a cluster needs in Kafka, from the requests that the code makes (KIP-618). Pure.

Every operation of a client is listed with its reason. Rights that a broker grants together with others are listed as
implied: Read, Write, Delete and Alter include Describe on the same resource, and Write on any topic includes
IdempotentWrite (KIP-679).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from fencepost.cluster.fencing import leader_transactional_id, task_transactional_ids
from fencepost.dead_letter.progress import progress_name


class Resource(Enum):
    """Kinds of resources, named like the options of `kafka-acls`."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"
    CLUSTER = "cluster"


class Operation(Enum):
    """Operations that can be granted, named as in `kafka-acls`."""

    READ = "Read"
    WRITE = "Write"
    CREATE = "Create"
    DELETE = "Delete"
    DESCRIBE = "Describe"
    ALTER = "Alter"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    ALTER_CONFIGS = "AlterConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"


class Need(Enum):
    """REQUIRED must be granted; IMPLIED is granted with another right; without OPTIONAL, some feature does not work."""

    REQUIRED = "required"
    IMPLIED = "implied"
    OPTIONAL = "optional"


@dataclass(frozen=True)
class ClientIdentity:
    """The cluster and the principal of a client: its bootstrap servers, and `User:name` as in Kafka."""

    cluster: str
    principal: str


@dataclass(frozen=True)
class Acl:
    """One operation on one resource. If `is_prefix`, `name` is a prefix of names. `note` qualifies `need`."""

    access: ClientIdentity
    resource: Resource
    name: str
    operation: Operation
    reason: str
    need: Need = Need.REQUIRED
    note: str = ""
    is_prefix: bool = False

    @property
    def target(self) -> tuple[ClientIdentity, Resource, str, bool]:
        """Return the resource of the operation and the client to which it is granted."""
        return self.access, self.resource, self.name, self.is_prefix


@dataclass(frozen=True)
class WorkerAccess:
    """The principal and objects of the workers of a `group.id`. `emptied`: topics emptied after commits (KIP-762)."""

    access: ClientIdentity
    group_id: str
    config_topic: str
    offsets_topic: str
    status_topic: str
    emptied: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConnectorAccess:
    """The clients and objects of a source connector.

    Args:
        tasks: The most tasks that it may have. `lanes` is the number of producers of each task.
        offsets_topic: The topic for its offsets. `has_own_offsets`: it is not the worker's topic.
        has_initial_offsets: It is created with initial offsets (KIP-995), which the leader writes.
        topics: The topics that it writes to. `creates_topics`: missing topics are created (KIP-158).
        dead_letters: The dead letter topic; empty if there is none.
        is_prefixed: One grant covers the transactional ids of all its tasks, whatever their number.
    """

    name: str
    producer: ClientIdentity
    admin: ClientIdentity
    consumer: ClientIdentity
    offsets_topic: str
    topics: tuple[str, ...]
    tasks: int = 1
    lanes: int = 2
    is_exactly_once: bool = True
    has_own_offsets: bool = False
    has_initial_offsets: bool = False
    creates_topics: bool = False
    dead_letters: str = ""
    is_prefixed: bool = False


@dataclass(frozen=True)
class SinkAccess:
    """The clients and objects of a sink connector.

    Args:
        group: Its consumer group.
        topics: The topics that it reads; a placeholder if it has a pattern.
        has_initial_offsets: It is created with initial offsets (KIP-995), which its group gets.
        dead_letters: The dead letter topic; empty if there is none.
        resends: The topic from which only this sink reads dead letters again; empty if there is none.
    """

    name: str
    consumer: ClientIdentity
    producer: ClientIdentity
    admin: ClientIdentity
    group: str
    topics: tuple[str, ...]
    dead_letters: str = ""
    resends: str = ""
    has_initial_offsets: bool = False


@dataclass(frozen=True)
class StreamAccess:
    """The clients and objects of a stream connector, which reads like a sink and writes like a source.

    The offsets in `writes` are not used, because the offsets are those of its group.
    """

    reads: SinkAccess
    writes: ConnectorAccess


@dataclass(frozen=True)
class MirrorEnd:
    """A mirror's own clients at one cluster."""

    admin: ClientIdentity
    consumer: ClientIdentity
    producer: ClientIdentity


@dataclass(frozen=True)
class MirrorAccess:
    """The clients and objects of a mirror's connector, in addition to those of any source.

    Args:
        topics: The source topics that it mirrors, or whose groups it follows, and their names at the target.
        mirrors: Whether it copies these topics.
        syncs: The topic of offset syncs; empty if there is none. `has_syncs_at_source` says where it is.
        made: The internal topic that it creates at the target; empty if there is none.
        groups: The source's groups whose positions it follows. `commits_groups`: it also commits them at the target.
        writer: The worker's producer at the target. `asker` is the worker's admin client there.
        group: The group that keeps the positions; empty if a topic does.
        has_configs: Whether remote topics get their sources' configs. `has_acls`: whether they get the read ACLs.
    """

    name: str
    source: MirrorEnd
    target: MirrorEnd
    writer: ClientIdentity
    asker: ClientIdentity
    topics: Mapping[str, str] = field(default_factory=dict)
    mirrors: bool = False
    syncs: str = ""
    has_syncs_at_source: bool = True
    made: str = ""
    groups: tuple[str, ...] = ()
    commits_groups: bool = False
    group: str = ""
    has_configs: bool = True
    has_acls: bool = True


AnyAccess = ConnectorAccess | SinkAccess | StreamAccess

KAFKA_CLUSTER = "kafka-cluster"
EVERY = "*"  # every resource of a kind
_READ, _DESCRIBE, _ALTER = Operation.READ, Operation.DESCRIBE, Operation.ALTER
_DESCRIBE_CONFIGS = Operation.DESCRIBE_CONFIGS
_ONLY_FOR_OFFSETS = "without it, offsets cannot be read or changed over REST"
_ONLY_NOTES = "without it, only earlier tasks of the connector are fenced; the task logs and waits for other producers"
_ONLY_RESENDS = "without it, dead letters cannot be seen and resent over REST and in the web UI"
_OFFSETS_LOG = "__consumer_offsets"
_ONLY_ACLS = "without it, ACLs are not mirrored: set sync.topic.acls.enabled=false"
_ONLY_LAG = "without it, tools at the source do not see the mirror's progress"
_ONLY_LOST = "without it, a position that the target's group has lost cannot be restored from there"
_UNTIL_MADE = "only until the topic exists"
_ONE_LANE = "without it, the task uses one producer and logs a warning"
_UNCHECKED = "without it, the worker cannot check that the topic is compacted, and logs a warning"
_IMPLIED_BY: Mapping[Operation, tuple[Operation, ...]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


def required_acls(
    worker: WorkerAccess, connectors: Iterable[AnyAccess] = (), others: Iterable[Acl] = ()
) -> tuple[Acl, ...]:
    """Return the rights that workers and connectors need, each only once, and grouped by principal.

    `others` are the rights of connectors' own clients.
    """
    listed = worker_acls(worker)
    for connector in connectors:
        if isinstance(connector, StreamAccess):
            listed += stream_acls(worker, connector)
        else:
            listed += sink_acls(connector) if isinstance(connector, SinkAccess) else connector_acls(worker, connector)
    return _with_implied(_distinct([*listed, *others]))


def worker_acls(worker: WorkerAccess) -> list[Acl]:
    """Return the rights that the workers' own clients need, in any mode."""
    access, leader = worker.access, leader_transactional_id(worker.group_id)
    listed = _of(access, Resource.GROUP, worker.group_id, "workers find each other", Operation.READ)
    listed += _of(access, Resource.TRANSACTIONAL_ID, leader, "the leader writes the config topic", Operation.WRITE)
    for name, content, operations in (
        (worker.config_topic, "configs", (Operation.READ, Operation.WRITE)),
        (worker.offsets_topic, "offsets of source connectors", (Operation.READ,)),
        (worker.status_topic, "states", (Operation.READ, Operation.WRITE)),
    ):
        listed += _topic(access, name, content, *operations)
        listed += _made_by(access, name, content)
        listed.append(_checked_by(access, name, content))
    return [*listed, *_retention_acls(worker), _idempotent(access)]


def _retention_acls(worker: WorkerAccess) -> list[Acl]:
    """Return the rights to delete records that all sinks have committed, which include Describe on all groups."""
    if not worker.emptied:
        return []
    access, seeing = worker.access, "the worker finds other readers of a topic, and keeps its records for them"
    listed = [
        Acl(access, Resource.CLUSTER, KAFKA_CLUSTER, Operation.DESCRIBE, seeing),
        Acl(access, Resource.GROUP, EVERY, Operation.DESCRIBE, seeing),
        # Without Describe on all topics of a newer group, Kafka does not show its members.
        Acl(access, Resource.TOPIC, EVERY, Operation.DESCRIBE, seeing),
    ]
    for name in worker.emptied:
        emptied = "records are deleted once all sinks have committed them"
        listed += _topic(access, name, emptied, Operation.DELETE, Operation.DESCRIBE_CONFIGS)
    return listed


def connector_acls(worker: WorkerAccess, connector: ConnectorAccess) -> list[Acl]:
    """Return the rights that a source connector's clients need."""
    listed = _transactional_ids(worker.group_id, connector) if connector.is_exactly_once else []
    listed += _output_acls(connector)
    committing = f"{connector.name} commits its offsets"
    listed += _topic(connector.producer, connector.offsets_topic, committing, Operation.WRITE)
    if connector.has_own_offsets:
        reading = f"{connector.name} reads its offsets"
        listed += _topic(connector.consumer, connector.offsets_topic, reading, Operation.READ)
        own = f"{connector.name} has its own offsets topic"
        listed += _made_by(connector.admin, connector.offsets_topic, own)
        listed.append(_checked_by(connector.admin, connector.offsets_topic, own))
    if connector.has_own_offsets or connector.has_initial_offsets:
        what = "copies of the offsets" if connector.has_own_offsets else "initial offsets"
        listed += _topic(worker.access, worker.offsets_topic, f"{what} of {connector.name}", Operation.WRITE)
    listed += _dead_letter_acls(connector)
    return [*listed, _idempotent(connector.producer)]


def ledger_acls(connector: ConnectorAccess, topic: str) -> list[Acl]:
    """Return the rights that the ledger of a source connector needs; none if it has no topic for one."""
    if not topic or not connector.is_exactly_once:
        return []
    why = f"{connector.name} has a ledger"
    listed = _topic(connector.producer, topic, why, Operation.WRITE)
    return [*listed, *_made_by(connector.admin, topic, why), _checked_by(connector.admin, topic, why)]


def _output_acls(connector: ConnectorAccess) -> list[Acl]:
    listed: list[Acl] = []
    for name in connector.topics:
        listed += _topic(connector.producer, name, f"{connector.name} writes its records", Operation.WRITE)
        if connector.creates_topics:
            listed += _made_by(connector.admin, name, f"{connector.name} has topic.creation settings")
    return listed


def _dead_letter_acls(connector: ConnectorAccess | SinkAccess) -> list[Acl]:
    if not connector.dead_letters:
        return []
    why = f"{connector.name} writes what it cannot process"
    writing = _topic(connector.producer, connector.dead_letters, why, Operation.WRITE)
    return [*writing, *_made_by(connector.admin, connector.dead_letters, why)]


def sink_acls(sink: SinkAccess) -> list[Acl]:
    """Return the rights that a sink connector's clients need."""
    group = f"{sink.name} reads as a member, and commits"
    listed = _of(sink.consumer, Resource.GROUP, sink.group, group, Operation.READ)
    for name in sink.topics:
        listed += _topic(sink.consumer, name, f"{sink.name} reads its records", Operation.READ)
    if sink.dead_letters:
        listed += _dead_letter_acls(sink)
        listed.append(_idempotent(sink.producer))
    if sink.resends:
        why = f"{sink.name} reads its dead letters again"
        listed += _topic(sink.consumer, sink.resends, why, Operation.READ)
        listed += _made_by(sink.admin, sink.resends, why)
        listed += _resend_acls(sink) if sink.dead_letters else []
    offsets = f"the offsets of {sink.name} over REST"
    seen = _of(sink.admin, Resource.GROUP, sink.group, offsets, Operation.READ, Operation.DELETE)
    for name in sink.topics:
        seen += _topic(sink.admin, name, offsets, Operation.READ)
    if sink.has_initial_offsets:
        return [*listed, *seen]
    return [*listed, *(replace(acl, need=Need.OPTIONAL, note=_ONLY_FOR_OFFSETS) for acl in seen)]


def _resend_acls(sink: SinkAccess) -> list[Acl]:
    """Return the rights with which workers resend dead letters to a topic that only this sink reads."""
    why, name = f"dead letters of {sink.name} are resent over REST", progress_name(sink.name)
    listed = _topic(sink.consumer, sink.dead_letters, why, Operation.READ)
    for client in (sink.consumer, sink.producer):
        listed += _of(client, Resource.GROUP, name, why, Operation.READ)
    listed += _of(sink.producer, Resource.TRANSACTIONAL_ID, name, why, Operation.WRITE)
    listed += _topic(sink.producer, sink.resends, why, Operation.WRITE)
    return [replace(acl, need=Need.OPTIONAL, note=_ONLY_RESENDS) for acl in listed]


def stream_acls(worker: WorkerAccess, stream: StreamAccess) -> list[Acl]:
    """Return the rights that a stream connector's clients need. Its producer commits the offsets of the input."""
    reads, writes = stream.reads, stream.writes
    listed = [*sink_acls(reads), *_transactional_ids(worker.group_id, writes), *_output_acls(writes)]
    committing = f"{reads.name} commits what it has read with what it has written"
    listed += _of(writes.producer, Resource.GROUP, reads.group, committing, Operation.READ)
    for name in reads.topics:
        listed += _topic(writes.producer, name, committing, Operation.READ)
    fencing = f"producers with offsets of {reads.name}'s input in a transaction are found, and fenced"
    looked_up = _topic(writes.producer, _OFFSETS_LOG, fencing, Operation.READ)
    listed += [replace(acl, need=Need.OPTIONAL, note=_ONLY_NOTES) for acl in looked_up]
    return [*listed, _idempotent(writes.producer)]


def query_acls(stream: StreamAccess, decisions: str, id_prefix: str, group: str | None) -> list[Acl]:
    """Return the additional rights of a streaming query, whose transactions record in a topic what is written.

    `group`: the consumer group to which they also commit what was read, if there is one.
    """
    producer, reason = stream.writes.producer, f"{stream.reads.name} writes each batch once"
    ids = _of(producer, Resource.TRANSACTIONAL_ID, id_prefix, reason, Operation.WRITE)
    listed = [replace(acl, is_prefix=True) for acl in ids]
    if group:
        listed += _of(producer, Resource.GROUP, group, reason, Operation.READ)
    return [
        *listed,
        *_topic(producer, decisions, reason, _READ, Operation.WRITE),
        *_made_by(producer, decisions, reason),
    ]


_Right = tuple[ClientIdentity, str, tuple[Operation, ...], str]
"""A client, what the operations are for (`{}` is the connector), the operations, and the note."""


def mirror_acls(mirror: MirrorAccess) -> list[Acl]:
    """Return the rights of a mirror's own clients at both of its clusters.

    Its producer writes the remote topics, as that of any source does: `connector_acls` has the rights for that.
    """
    return [
        Acl(client, resource, name, operation, reason.format(mirror.name), need, note)
        for resource, names, rights in _rights_of(mirror)
        for name in names
        for client, reason, operations, note in rights
        for need in (Need.REQUIRED if note in ("", _UNTIL_MADE) else Need.OPTIONAL,)
        for operation in operations
    ]


def _rights_of(mirror: MirrorAccess) -> Iterator[tuple[Resource, Iterable[str], Sequence[_Right]]]:
    """Yield names of a kind of resource, and the rights that are needed for each of them."""
    topic, group, source, target, writer = Resource.TOPIC, Resource.GROUP, mirror.source, mirror.target, mirror.writer
    remote, syncs = mirror.topics.values(), [mirror.syncs] if mirror.syncs else []
    synced, writes_syncs = (source, source.producer) if mirror.has_syncs_at_source else (target, writer)
    if mirror.made:
        yield topic, [mirror.made], _made_rights(target.admin, "{} writes it")
    if mirror.mirrors:
        copied = (source.consumer, "{} mirrors it", (_READ, _DESCRIBE), "")
        looked_at = (source.admin, "{} mirrors it", (_DESCRIBE, _DESCRIBE_CONFIGS), "")
        yield topic, mirror.topics, [copied, looked_at]
        yield topic, remote, list(_kept_rights(mirror))
    if mirror.mirrors and mirror.has_acls:
        reads = (source.admin, "{} mirrors ACLs", (_DESCRIBE,), _ONLY_ACLS)
        yield Resource.CLUSTER, [KAFKA_CLUSTER], [reads, (target.admin, "{} mirrors ACLs", (_ALTER,), _ONLY_ACLS)]
    if mirror.mirrors:
        written = (writes_syncs, "{} writes offset syncs", (Operation.WRITE, _DESCRIBE), "")
        yield topic, syncs, [*_made_rights(synced.admin, "{} writes offset syncs"), written]
    if mirror.group:
        committing, reading = "{} commits its positions", "the positions of {} are read"
        lost = "{} restores a lost position"
        yield group, [mirror.group], [(writer, committing, (_READ, _DESCRIBE), "")]
        yield topic, remote, [(writer, committing, (_READ,), "")]
        yield group, [mirror.group], [(each, reading, (_DESCRIBE,), "") for each in (mirror.asker, target.admin)]
        yield topic, remote, [(mirror.asker, reading, (_DESCRIBE,), "")]
        progress = (source.consumer, "{} commits its progress at the source", (_READ,), _ONLY_LAG)
        yield group, [mirror.group], [progress, (source.admin, lost, (_DESCRIBE,), _ONLY_LOST)]
        yield topic, syncs, [(target.admin, lost, (_READ,), _ONLY_LOST)]
    if mirror.groups:
        followed = [(source.admin, "{} reads the offsets of groups", (_DESCRIBE,), "")]
        yield group, mirror.groups, followed
        yield topic, mirror.topics, followed
        translating = "{} translates positions"
        yield topic, [mirror.syncs], [(synced.consumer, translating, (_READ, _DESCRIBE), "")]
        yield topic, [mirror.made], [(target.consumer, translating, (_READ, _DESCRIBE), "")]
        yield topic, remote, [(target.admin, translating, (_DESCRIBE,), "")]
    if mirror.groups and mirror.commits_groups:
        yield group, mirror.groups, [(target.admin, "{} commits groups", (_READ, _DESCRIBE), "")]
        yield topic, remote, [(target.admin, "{} commits groups", (_READ,), "")]


def _kept_rights(mirror: MirrorAccess) -> Iterator[_Right]:
    """Yield the rights to create a remote topic, and to keep it like the source's topic."""
    admin = mirror.target.admin
    yield admin, "{} creates it", (Operation.CREATE,), _UNTIL_MADE
    yield admin, "{} adds the partitions that the source has", (_ALTER,), ""
    yield admin, "{} checks whether it exists", (_DESCRIBE,), ""
    if mirror.has_configs:
        yield admin, "{} sets the configs that the source has", (Operation.ALTER_CONFIGS, _DESCRIBE_CONFIGS), ""


def _made_rights(admin: ClientIdentity, reason: str) -> list[_Right]:
    return [(admin, reason, (Operation.CREATE,), _UNTIL_MADE), (admin, reason, (_DESCRIBE,), "")]


def _transactional_ids(group_id: str, connector: ConnectorAccess) -> list[Acl]:
    """Return the rights of the producer's principal to the ids that tasks use. Fencing uses the same principal."""
    reason = f"{connector.name} writes in transactions, and its older tasks are fenced"
    if connector.is_prefixed:
        prefix = task_transactional_ids(group_id, connector.name, 0)[0].removesuffix("0")
        found = _of(connector.producer, Resource.TRANSACTIONAL_ID, prefix, reason, Operation.WRITE)
        return [replace(acl, is_prefix=True) for acl in found]
    listed: list[Acl] = []
    for task in range(connector.tasks):
        first, second = task_transactional_ids(group_id, connector.name, task)
        listed += _of(connector.producer, Resource.TRANSACTIONAL_ID, first, reason, Operation.WRITE)
        if connector.lanes > 1:
            why = f"a second producer of {connector.name}-{task}"
            right = Acl(connector.producer, Resource.TRANSACTIONAL_ID, second, Operation.WRITE, why)
            listed.append(replace(right, need=Need.OPTIONAL, note=_ONE_LANE))
    return listed


def _of(access: ClientIdentity, resource: Resource, name: str, reason: str, *operations: Operation) -> list[Acl]:
    """Return rights to the operations and to Describe, because clients look up every resource before they use it."""
    return [Acl(access, resource, name, op, reason) for op in (*operations, Operation.DESCRIBE)]


def _topic(access: ClientIdentity, name: str, reason: str, *operations: Operation) -> list[Acl]:
    return _of(access, Resource.TOPIC, name, reason, *operations)


def _made_by(access: ClientIdentity, topic: str, reason: str) -> list[Acl]:
    first, *rest = _of(access, Resource.TOPIC, topic, reason, Operation.CREATE)
    return [replace(first, note=_UNTIL_MADE), *rest]


def _checked_by(access: ClientIdentity, topic: str, reason: str) -> Acl:
    return Acl(access, Resource.TOPIC, topic, Operation.DESCRIBE_CONFIGS, reason, Need.OPTIONAL, _UNCHECKED)


def _idempotent(access: ClientIdentity) -> Acl:
    return Acl(access, Resource.CLUSTER, KAFKA_CLUSTER, Operation.IDEMPOTENT_WRITE, "producers are idempotent")


def _distinct(listed: Sequence[Acl]) -> list[Acl]:
    """Return each right once: its first REQUIRED entry, or its first entry if none is REQUIRED."""
    found: dict[tuple[object, ...], Acl] = {}
    for acl in listed:
        key = (*acl.target, acl.operation)
        before = found.setdefault(key, acl)
        if before.need is Need.OPTIONAL and acl.need is Need.REQUIRED:
            found[key] = acl
    return list(found.values())


def _with_implied(listed: Sequence[Acl]) -> tuple[Acl, ...]:
    granting = {(acl.target, acl.operation): acl for acl in listed}
    writes = {acl.access for acl in listed if acl.operation is Operation.WRITE and acl.resource is Resource.TOPIC}

    def seen(acl: Acl) -> Acl:
        for operation in _IMPLIED_BY.get(acl.operation, ()):
            by = granting.get((acl.target, operation))
            if by is not None and (by.need is Need.REQUIRED or acl.need is not Need.REQUIRED):
                return replace(acl, need=Need.IMPLIED, note=f"by {operation.value}")
        if acl.operation is Operation.IDEMPOTENT_WRITE and acl.access in writes:
            return replace(acl, need=Need.IMPLIED, note=f"by {Operation.WRITE.value} on a topic")
        return acl

    seen_at = {acl.access: place for place, acl in reversed(list(enumerate(listed)))}
    clusters = list(dict.fromkeys(acl.access.cluster for acl in listed))
    kinds = list(Resource)

    def place(acl: Acl) -> tuple[int, int, int]:
        return clusters.index(acl.access.cluster), seen_at[acl.access], kinds.index(acl.resource)

    return tuple(sorted(map(seen, listed), key=place))
