"""The access rights of a mirror's own clients, at both of its clusters. Pure functions that list what they request.

`rights.py` lists what the worker's clients do for a mirror as for any source: its producer writes the remote topics.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.cli.cluster.rights import KAFKA_CLUSTER, Acl, ClientIdentity, Need, Operation, Resource

_ONLY_ACLS = "without it, ACLs are not mirrored: set sync.topic.acls.enabled=false"
_ONLY_LAG = "without it, tools at the source do not see the mirror's progress"
_ONLY_LOST = "without it, a position that the target's group has lost cannot be restored from there"
_UNTIL_MADE = "only until the topic exists"


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


def mirror_acls(mirror: MirrorAccess) -> list[Acl]:
    """Return the rights that the clients of a mirror's connector need."""
    listed = [*_made(mirror)]
    if mirror.mirrors:
        listed += [*_read(mirror), *_kept(mirror), *_rights(mirror), *_synced(mirror)]
    if mirror.group:
        listed += _held(mirror)
    if mirror.groups:
        listed += _followed(mirror)
    return listed


def _read(mirror: MirrorAccess) -> Iterator[Acl]:
    what = f"{mirror.name} mirrors it"
    for topic in mirror.topics:
        yield from _topic(mirror.source.consumer, topic, what, Operation.READ, Operation.DESCRIBE)
        yield from _topic(mirror.source.admin, topic, what, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS)


def _kept(mirror: MirrorAccess) -> Iterator[Acl]:
    """Yield the rights to create remote topics, and to keep them like the source's topics."""
    admin = mirror.target.admin
    for remote in mirror.topics.values():
        yield from _topic(admin, remote, f"{mirror.name} creates it", Operation.CREATE, note=_UNTIL_MADE)
        grown = f"{mirror.name} adds the partitions that the source has"
        yield from _topic(admin, remote, grown, Operation.ALTER)
        yield from _topic(admin, remote, f"{mirror.name} checks whether it exists", Operation.DESCRIBE)
        if mirror.has_configs:
            configs = f"{mirror.name} sets the configs that the source has"
            yield from _topic(admin, remote, configs, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)


def _rights(mirror: MirrorAccess) -> Iterator[Acl]:
    if mirror.has_acls:
        why = f"{mirror.name} mirrors ACLs"
        for access, operation in ((mirror.source.admin, Operation.DESCRIBE), (mirror.target.admin, Operation.ALTER)):
            yield Acl(access, Resource.CLUSTER, KAFKA_CLUSTER, operation, why, Need.OPTIONAL, _ONLY_ACLS)


def _synced(mirror: MirrorAccess) -> Iterator[Acl]:
    """Yield the rights to create the topic of offset syncs and write to it."""
    if not mirror.syncs:
        return
    why = f"{mirror.name} writes offset syncs"
    end, writer = (
        (mirror.source, mirror.source.producer) if mirror.has_syncs_at_source else (mirror.target, mirror.writer)
    )
    yield from _topic(end.admin, mirror.syncs, why, Operation.CREATE, note=_UNTIL_MADE)
    yield from _topic(end.admin, mirror.syncs, why, Operation.DESCRIBE)
    yield from _topic(writer, mirror.syncs, why, Operation.WRITE, Operation.DESCRIBE)


def _held(mirror: MirrorAccess) -> Iterator[Acl]:
    """Yield the rights to keep positions in a group of the target, and to show them at the source."""
    why = f"{mirror.name} commits its positions"
    yield from _group(mirror.writer, mirror.group, why, Operation.READ, Operation.DESCRIBE)
    for remote in mirror.topics.values():
        yield from _topic(mirror.writer, remote, why, Operation.READ)
    reading = f"the positions of {mirror.name} are read"
    for access in (mirror.asker, mirror.target.admin):
        yield from _group(access, mirror.group, reading, Operation.DESCRIBE)
    for remote in mirror.topics.values():
        yield from _topic(mirror.asker, remote, reading, Operation.DESCRIBE)
    reason = f"{mirror.name} commits its progress at the source"
    yield from _group(mirror.source.consumer, mirror.group, reason, Operation.READ, need=Need.OPTIONAL, note=_ONLY_LAG)
    lost = f"{mirror.name} restores a lost position"
    yield from _group(mirror.source.admin, mirror.group, lost, Operation.DESCRIBE, need=Need.OPTIONAL, note=_ONLY_LOST)
    if mirror.syncs:
        yield from _topic(mirror.target.admin, mirror.syncs, lost, Operation.READ, need=Need.OPTIONAL, note=_ONLY_LOST)


def _made(mirror: MirrorAccess) -> Iterator[Acl]:
    if mirror.made:
        why = f"{mirror.name} writes it"
        yield from _topic(mirror.target.admin, mirror.made, why, Operation.CREATE, note=_UNTIL_MADE)
        yield from _topic(mirror.target.admin, mirror.made, why, Operation.DESCRIBE)


def _followed(mirror: MirrorAccess) -> Iterator[Acl]:
    """Yield the rights to translate the positions of groups, and to commit them."""
    why = f"{mirror.name} reads the offsets of groups"
    for group in mirror.groups:
        yield from _group(mirror.source.admin, group, why, Operation.DESCRIBE)
    for topic in mirror.topics:
        yield from _topic(mirror.source.admin, topic, why, Operation.DESCRIBE)
    end = mirror.source if mirror.has_syncs_at_source else mirror.target
    translating = f"{mirror.name} translates positions"
    yield from _topic(end.consumer, mirror.syncs, translating, Operation.READ, Operation.DESCRIBE)
    yield from _topic(mirror.target.consumer, mirror.made, translating, Operation.READ, Operation.DESCRIBE)
    for remote in mirror.topics.values():
        yield from _topic(mirror.target.admin, remote, translating, Operation.DESCRIBE)
    if mirror.commits_groups:
        committing = f"{mirror.name} commits groups"
        for group in mirror.groups:
            yield from _group(mirror.target.admin, group, committing, Operation.READ, Operation.DESCRIBE)
        for remote in mirror.topics.values():
            yield from _topic(mirror.target.admin, remote, committing, Operation.READ)


def _topic(
    access: ClientIdentity, name: str, why: str, *operations: Operation, need: Need = Need.REQUIRED, note: str = ""
) -> list[Acl]:
    return [Acl(access, Resource.TOPIC, name, operation, why, need, note) for operation in operations]


def _group(
    access: ClientIdentity, name: str, why: str, *operations: Operation, need: Need = Need.REQUIRED, note: str = ""
) -> list[Acl]:
    return [Acl(access, Resource.GROUP, name, operation, why, need, note) for operation in operations]
