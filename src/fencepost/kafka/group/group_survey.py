"""Finds which groups, of every kind, read which topics of a cluster: from committed offsets and members' subscriptions.

Kafka has no such request. This lists all groups, then asks for the offsets and members of all of them together, so that
the number of requests depends on the number of brokers, not of groups.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.wire.kafka_python import group_failure, kafka_python_admin
from fencepost.record import TopicPartition

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"
_OF_CONSUMERS = ("consumer", "")  # protocol types; the second: offsets without members
_DEAD = "Dead"
_QUIET = ("Empty", _DEAD)
_UNSTABLE, _DENIED, _TOPIC_DENIED = 88, 30, 29  # UNSTABLE_OFFSET_COMMIT, GROUP_ and TOPIC_AUTHORIZATION_FAILED
_STALE, _REBALANCING = (22, 25), 27  # ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID; the generation is still the newest
_GONE = (69,)  # GROUP_ID_NOT_FOUND: the group has just ended
_DESCRIBE = 8  # Kafka's number of the operation

_MAY_NOT = "the principal may not Describe it"
_NUL = "\0"  # librdkafka ends the metadata of offsets with one


class Committed(NamedTuple):
    """The offset of the next record, and the metadata that was committed with it (`note`)."""

    offset: int
    note: str


Offsets = Mapping[TopicPartition, int | None]
"""The committed offsets of a group; None while an open transaction may change one."""
Standing = Mapping[TopicPartition, Committed | None]
"""The same, with metadata."""


@dataclass(frozen=True, slots=True)
class GroupSubscription:
    """The topics that a group reads, as far as brokers report them.

    Attributes:
        kind: classic, consumer, share, streams, or another of Kafka's group types.
        topics: topics of its committed offsets, of its members, and of the topology of present or former members.
        patterns: the regular expressions that members subscribe to.
        offsets: its committed offsets; empty for a share group.
        doubt: why it may read more topics than these; None if it does not.
    """

    group: str
    kind: str
    topics: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    offsets: Offsets = field(default_factory=dict)
    doubt: str | None = None

    def reads(self, topic: str) -> bool:
        """Return whether the group is known to read a topic."""
        return topic in self.topics or any(_matches(pattern, topic) for pattern in self.patterns)


def _matches(pattern: str, topic: str) -> bool:
    """Match generously: also on a part of the name, and on patterns that Python cannot parse. Brokers use RE2."""
    try:
        return "[:" in pattern or re.search(pattern, topic) is not None  # [[:alpha:]] means something else in Python
    except re.error:
        return True


class GroupSurvey:
    """Asks one cluster about its groups, as the principal of `conf` (librdkafka's names). Connects at the first call.

    For one thread. Every method raises KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float) -> None:
        self._guard = ForkGuard()
        self._conf = dict(conf)
        self._timeout_s = timeout_s
        self._client: Any = None
        self.requests = 0  # so far
        self.seen: frozenset[str] = frozenset()  # the groups of the last `look`

    def close(self) -> None:
        """Close the connections. Idempotent; another call connects again."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def sees_all(self) -> bool:
        """Return whether the principal sees every group. That takes Describe on the cluster."""
        return _DESCRIBE in self._run("describing the cluster", _authorized)

    def offsets(self, groups: Iterable[str]) -> dict[str, Offsets]:
        """Return the stable committed offsets of groups. A group that does not exist has none."""
        found, denied = self.standing(groups)
        for group, why in denied.items():
            raise KafkaAuthorizationError(f"The offsets of group {group} cannot be read: {why}")
        return {group: _numbers(standing) for group, standing in found.items()}

    def standing(self, groups: Iterable[str]) -> tuple[dict[str, Standing], dict[str, str]]:
        """Return the stable committed offsets and metadata of groups, and why some groups cannot be asked."""
        wanted = list(groups)
        if not wanted:
            return {}, {}
        found: tuple[dict[str, Standing], dict[str, str]]
        found = self._run("reading the offsets of groups", _offsets, wanted)
        return found

    def committed(self, group: str, places: Collection[TopicPartition]) -> dict[TopicPartition, Committed | None]:
        """Return the committed offsets and metadata of a group; None for those that an open transaction may change.

        For partitions in `places` the None is reported even if nothing was committed before that transaction.
        """
        standing: dict[TopicPartition, Committed | None] = {}
        for asked in (None, places) if places else (None,):
            found, denied = self._run("reading the offsets of a group", _offsets, [group], asked)
            if denied:
                raise KafkaAuthorizationError(f"The offsets of group {group} cannot be read: {denied[group]}")
            standing |= found.get(group, {})
        return standing

    def notes(self, group: str, places: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Return the metadata of the offsets that are committed now, even if an open transaction may change them."""
        found, _ = self._run("reading the offsets of a group", _offsets, [group], places, False)
        return {place: committed.note for place, committed in found.get(group, {}).items()}

    def is_current(self, group: str, generation: int, member_id: str) -> bool:
        """Return whether a member's generation is the newest of its group. Sends a heartbeat in the member's name."""
        return bool(self._run(f"asking group {group} for a member", _is_current, group, generation, member_id))

    def has_members(self, group: str) -> bool:
        """Return whether a classic group has members, of any protocol type, such as Kafka Connect's workers."""
        has, doubts = self._run(f"describing group {group}", _has_members, group)
        if _MAY_NOT in doubts.values():
            raise KafkaAuthorizationError(f"Group {group} cannot be described: {_MAY_NOT}")
        return bool(has)

    def look(self) -> list[GroupSubscription]:
        """Return the subscription of every group."""
        found: list[GroupSubscription] = self._run("looking at all groups", _look)
        return found

    def _run(self, doing: str, ask: Any, *arguments: Any) -> Any:
        from kafka.errors import KafkaError

        self._guard.check("The client that looks at groups")
        try:
            if self._client is None:
                self._client = kafka_python_admin(self._conf, self._timeout_s)
            return self._client._manager.run(ask, _Asking(self, self._client), *arguments)
        except (KafkaError, OSError) as error:
            self.close()  # it may have cached an old coordinator
            raise group_failure(error, doing, self._conf) from error


class _Asking:
    """Sends requests, and counts them."""

    def __init__(self, owner: GroupSurvey, client: Any) -> None:
        self._owner = owner
        self._client = client

    async def send(self, request: Any, node_id: int | None = None) -> Any:
        self._owner.requests += 1
        return await self._client._manager.send(request, node_id=node_id)

    async def listed(self) -> list[dict[str, Any]]:
        """Return all groups that the principal may see, as each present broker's ListGroups reports them.

        While a group's coordinator moves, no broker lists the group. So a group that was seen before is then asked
        for by name.
        """
        cluster = self._client._manager.cluster
        await cluster.refresh_metadata()  # a broker that has returned, or is new, may have groups
        self._owner.requests += 1
        found = await self._of_brokers()
        missed = self._owner.seen - {group["group_id"] for group in found}
        if missed:
            await _offsets(self, missed)  # raises while no coordinator has loaded one of them
            found = await self._of_brokers()
        self._owner.seen = frozenset(group["group_id"] for group in found)
        return found

    async def _of_brokers(self) -> list[dict[str, Any]]:
        self._owner.requests += len(self._client._manager.cluster.brokers())
        found: list[dict[str, Any]] = await self._client._async_list_groups()
        return found

    async def by_coordinator(self, groups: Collection[str], denied: dict[str, str]) -> dict[int, list[str]]:
        """Return the groups of each coordinator. Groups that the principal may not describe are added to `denied`.

        One such group makes the library refuse the response for all of them; then each is asked for separately.
        """
        if not groups:
            return {}
        from kafka.errors import GroupAuthorizationFailedError

        self._owner.requests += 1
        found: dict[int, list[str]] = {}
        try:
            for group, node in (await self._client._find_coordinator_ids(list(groups))).items():
                found.setdefault(node, []).append(group)
        except GroupAuthorizationFailedError:
            if len(groups) == 1:
                denied |= dict.fromkeys(groups, _MAY_NOT)
                return {}
            for group in groups:
                for node, of_node in (await self.by_coordinator([group], denied)).items():
                    found.setdefault(node, []).extend(of_node)
        return found


async def _authorized(asking: _Asking) -> frozenset[int]:
    """Return the numbers of the operations that the principal may carry out on the cluster."""
    from kafka.protocol.admin import DescribeClusterRequest

    answer = await asking.send(DescribeClusterRequest(include_cluster_authorized_operations=True))
    return frozenset(answer.authorized_operations or ())


async def _offsets(
    asking: _Asking,
    groups: Collection[str],
    places: Collection[TopicPartition] | None = None,
    is_stable: bool = True,
) -> tuple[dict[str, Standing], dict[str, str]]:
    """Return the committed offsets of groups, and why some groups cannot be asked.

    With `is_stable`, an offset that an open transaction may change is None (KIP-447). If all partitions are requested,
    a broker leaves out those whose first offset is still in an open transaction.
    """
    from kafka.protocol.consumer import OffsetFetchRequest

    asked = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = None if places is None else _by_topic(places)
    found: dict[str, Standing] = {}
    denied: dict[str, str] = {}
    for node, of_node in (await asking.by_coordinator(groups, denied)).items():
        wanted = [asked(group_id=group, topics=topics) for group in of_node]
        request = OffsetFetchRequest(groups=wanted, require_stable=is_stable, min_version=8, max_version=8)
        for group in (await asking.send(request, node)).groups:
            if group.error_code == _DENIED:
                denied[group.group_id] = _MAY_NOT
            elif group.error_code not in _GONE:
                _check(group.error_code, f"group {group.group_id}")
                found[group.group_id] = _standing(group)
    return found, denied


async def _is_current(asking: _Asking, group: str, generation: int, member_id: str) -> bool:
    from kafka.protocol.consumer import HeartbeatRequest

    denied: dict[str, str] = {}
    for node in await asking.by_coordinator([group], denied):
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, max_version=3)
        code = (await asking.send(request, node)).error_code
        if code in _STALE:
            return False
        if code != _REBALANCING:
            _check(code, f"group {group}")
    return True


def _by_topic(places: Collection[TopicPartition]) -> list[Any]:
    from kafka.protocol.consumer import OffsetFetchRequest

    topics: dict[str, list[int]] = {}
    for place in places:
        topics.setdefault(place.topic, []).append(place.partition)
    asked = OffsetFetchRequest.OffsetFetchRequestGroup.OffsetFetchRequestTopics
    return [asked(name=topic, partition_indexes=partitions) for topic, partitions in topics.items()]


def _standing(group: Any) -> Standing:
    found: dict[TopicPartition, Committed | None] = {}
    for topic in group.topics:
        for each in topic.partitions:
            if each.error_code == _UNSTABLE:
                found[TopicPartition(topic.name, each.partition_index)] = None
                continue
            _check(each.error_code, f"group {group.group_id}, {topic.name}-{each.partition_index}")
            if each.committed_offset >= 0:
                committed = Committed(each.committed_offset, (each.metadata or "").rstrip(_NUL))
                found[TopicPartition(topic.name, each.partition_index)] = committed
    return found


def _numbers(standing: Standing) -> Offsets:
    return {place: None if committed is None else committed.offset for place, committed in standing.items()}


async def _look(asking: _Asking) -> list[GroupSubscription]:
    groups = {g["group_id"]: g for g in await asking.listed()}
    kinds = {group: str(listed.get("group_type") or CLASSIC).lower() for group, listed in groups.items()}
    reading = {g for g, kind in kinds.items() if kind != CLASSIC or groups[g]["protocol_type"] in _OF_CONSUMERS}
    busy = {g for g in reading if groups[g].get("group_state") not in _QUIET}
    doubts: dict[str, str] = {}
    topics: dict[str, set[str]] = {g: set() for g in kinds}
    patterns: dict[str, set[str]] = {}
    of_kind = {kind: [g for g in busy if kinds[g] == kind] for kind in (CLASSIC, CONSUMER, SHARE)}
    for group in await _classic_members(asking, of_kind[CLASSIC], doubts):
        topics[group.group_id].update(_classic_topics(group, doubts))
    for group in await _members(asking, of_kind[CONSUMER], CONSUMER, doubts):
        topics[group.group_id].update(_subscribed(group))
        patterns[group.group_id] = {m.subscribed_topic_regex for m in group.members if m.subscribed_topic_regex}
    for group in await _members(asking, of_kind[SHARE], SHARE, doubts):
        topics[group.group_id].update(_subscribed(group))
    for group in await _members(asking, [g for g in kinds if kinds[g] == STREAMS], STREAMS, doubts):
        topics[group.group_id].update(_processed(group, doubts))
    for name, of_share in (await _share_topics(asking, [g for g in kinds if kinds[g] == SHARE], doubts)).items():
        topics[name].update(of_share)
    # Members first: offsets that a member commits before it leaves are then still found.
    offsets, denied = await _offsets(asking, [g for g, kind in kinds.items() if kind != SHARE])
    doubts |= denied
    standing = {name: _numbers(found) for name, found in offsets.items()}
    for name, found in standing.items():
        topics[name].update(place.topic for place in found)
    for group in busy:
        if kinds[group] not in (*of_kind, STREAMS):
            doubts[group] = f"it is a {kinds[group]} group with members, and what they read cannot be seen"
    return [
        GroupSubscription(
            group, kind, frozenset(topics[group]), tuple(sorted(patterns.get(group, ()))), standing.get(group, {}),
            doubts.get(group),
        )
        for group, kind in kinds.items()
    ]  # fmt: skip


async def _classic_members(asking: _Asking, groups: Collection[str], doubts: dict[str, str]) -> list[Any]:
    from kafka.protocol.admin import DescribeGroupsRequest

    found = []
    for node, of_node in (await asking.by_coordinator(groups, doubts)).items():
        answer = await asking.send(DescribeGroupsRequest(groups=of_node), node)
        found += [group for group in answer.groups if _is_still_there(group, doubts)]
    return found


async def _has_members(asking: _Asking, group: str) -> tuple[bool, dict[str, str]]:
    doubts: dict[str, str] = {}
    found = await _classic_members(asking, [group], doubts)
    return any(each.members for each in found), doubts


def _classic_topics(group: Any, doubts: dict[str, str]) -> set[str]:
    """Return the topics that members subscribe to or own. During a rebalance the coordinator does not report them."""
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

    topics: set[str] = set()
    try:
        for member in group.members:
            if not member.member_metadata:
                raise ValueError("during a rebalance the coordinator does not report topics")
            topics.update(ConsumerProtocolSubscription.decode(member.member_metadata).topics)
            if member.member_assignment:
                had = ConsumerProtocolAssignment.decode(member.member_assignment).assigned_partitions
                topics.update(each.topic for each in had)
    except Exception as error:
        doubts[group.group_id] = f"the topics of its members are unknown for now ({error})"
    return topics


async def _members(asking: _Asking, groups: Collection[str], kind: str, doubts: dict[str, str]) -> list[Any]:
    if not groups:
        return []
    from fencepost.kafka.group import group_message

    message = {
        CONSUMER: group_message.ConsumerGroupDescribeRequest,
        SHARE: group_message.ShareGroupDescribeRequest,
        STREAMS: group_message.StreamsGroupDescribeRequest,
    }[kind]
    found = []
    for node, of_node in (await asking.by_coordinator(groups, doubts)).items():
        answer = await asking.send(message(group_ids=of_node, include_authorized_operations=False), node)
        found += [group for group in answer.groups if _is_still_there(group, doubts)]
    return found


def _subscribed(group: Any) -> set[str]:
    named = {topic for member in group.members for topic in member.subscribed_topic_names}
    return named | {had.topic_name for member in group.members for had in member.assignment.topic_partitions}


def _processed(group: Any, doubts: dict[str, str]) -> set[str]:
    """Return the topics that tasks of a streams group read: sources, and changelogs from which they restore state."""
    parts = group.topology.subtopologies if group.topology is not None else None
    why = _unseen(group, parts)
    if why:
        doubts[group.group_id] = f"it is a streams group, and {why}"
    internal = [
        topic for part in parts or () for topic in (*part.repartition_source_topics, *part.state_changelog_topics)
    ]
    return {topic for part in parts or () for topic in part.source_topics} | {topic.name for topic in internal}


def _unseen(group: Any, parts: Collection[Any] | None) -> str | None:
    """Return why a streams group may read more than its topology names; None if it does not."""
    if group.members and not parts:
        return "its coordinator does not report what its members read"
    if any(member.is_classic or member.topology_epoch != group.topology.epoch for member in group.members):
        return "not all of its members have the topology that its coordinator reports"
    if any(not part.source_topics and not part.repartition_source_topics for part in parts or ()):
        return "a part of its topology has no sources by name"  # the response does not include patterns
    reported = {part.subtopology_id for part in parts or ()}
    if any(task.subtopology_id not in reported for member in group.members for task in _tasks(member)):
        return "its members have tasks that are not in its topology"
    return None


def _tasks(member: Any) -> list[Any]:
    given = (member.assignment, member.target_assignment)
    return [task for each in given for task in (*each.active_tasks, *each.standby_tasks, *each.warmup_tasks)]


async def _share_topics(asking: _Asking, groups: Collection[str], doubts: dict[str, str]) -> dict[str, set[str]]:
    """Return the topics of share groups' start offsets, with or without members."""
    if not groups:
        return {}
    from fencepost.kafka.group.group_message import DescribeShareGroupOffsetsRequest

    asked = DescribeShareGroupOffsetsRequest.AskedGroup
    found: dict[str, set[str]] = {}
    for node, of_node in (await asking.by_coordinator(groups, doubts)).items():
        wanted = [asked(group_id=group, topics=None) for group in of_node]
        for group in (await asking.send(DescribeShareGroupOffsetsRequest(groups=wanted), node)).groups:
            if _is_there(group, doubts):
                found[group.group_id] = {topic.topic_name for topic in group.topics}
    return found


def _is_there(group: Any, doubts: dict[str, str]) -> bool:
    if group.error_code == _DENIED:
        doubts[group.group_id] = _MAY_NOT
    elif group.error_code == _TOPIC_DENIED:
        doubts[group.group_id] = "the principal may not Describe a topic that it reads"
    elif group.error_code not in _GONE:
        _check(group.error_code, f"group {group.group_id}")
    return not group.error_code


def _is_still_there(group: Any, doubts: dict[str, str]) -> bool:
    """Return whether a group still exists as the kind that was listed. If not, it may have become another kind."""
    if group.error_code in _GONE or getattr(group, "group_state", "") == _DEAD:
        doubts[group.group_id] = "it has just ended or changed its kind"
        return False
    return _is_there(group, doubts)


def _check(code: int, what: str) -> None:
    from kafka.errors import for_code

    if code:
        error = for_code(code)
        if getattr(error, "retriable", False):
            raise error(what)
        raise KafkaRequestError(f"Failed looking at {what}: {error.__name__}", code)
