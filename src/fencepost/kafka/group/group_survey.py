"""Finds which groups, of every kind, read which topics of a cluster: from committed offsets and members' subscriptions.

Kafka has no such request. This lists all groups, then asks for the offsets and members of all of them together, so that
the number of requests depends on the number of brokers, not of groups.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.errors import KafkaAuthorizationError, ensure
from fencepost.kafka.group.group_admin import kind_of, listed_groups
from fencepost.kafka.group.group_offsets import (
    MAY_NOT_DESCRIBE,
    Committed,
    CommittedOffsets,
    Offsets,
    by_coordinator,
    numbers,
    read_offsets,
)
from fencepost.kafka.group.subscription import (
    CLASSIC,
    CONSUMER,
    DEAD,
    SHARE,
    STREAMS,
    GroupSubscription,
    classic_topics,
    is_still_there,
    is_there,
    processed_topics,
    subscribed_topics,
)
from fencepost.kafka.wire.requests import RequestClient
from fencepost.record import TopicPartition

_OF_CONSUMERS = ("consumer", "")  # protocol types; the second: offsets without members
_QUIET = ("Empty", DEAD)
_STALE = (KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID)
_DESCRIBE = 8  # Kafka's number of the operation
_READING_ONE = "reading the offsets of a group"


class GroupSurvey:
    """Asks one cluster about its groups, as the principal of `conf` (librdkafka's names). Connects at the first call.

    For one thread. Every method raises KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float) -> None:
        self._client = RequestClient(conf, timeout_s=timeout_s)
        self.seen: frozenset[str] = frozenset()  # the groups of the last `look`

    def close(self) -> None:
        """Close the connections. Idempotent; another call connects again."""
        self._client.close()

    @property
    def requests(self) -> int:
        """Return how many requests were sent so far."""
        return self._client.sent

    def sees_all(self) -> bool:
        """Return whether the principal sees every group. That takes Describe on the cluster."""
        return _DESCRIBE in self._client.run("describing the cluster", self._authorized)

    def offsets(self, groups: Iterable[str]) -> dict[str, Offsets]:
        """Return the stable committed offsets of groups. A group that does not exist has none."""
        found, denied = self.committed_offsets(groups)
        for group, why in denied.items():
            raise KafkaAuthorizationError(f"The offsets of group {group} cannot be read: {why}")
        return {group: numbers(committed_offsets) for group, committed_offsets in found.items()}

    def committed_offsets(self, groups: Iterable[str]) -> tuple[dict[str, CommittedOffsets], dict[str, str]]:
        """Return the stable committed offsets and metadata of groups, and why some groups cannot be asked."""
        wanted = list(groups)
        if not wanted:
            return {}, {}
        return self._offsets("reading the offsets of groups", wanted)

    def committed(self, group: str, places: Collection[TopicPartition]) -> dict[TopicPartition, Committed | None]:
        """Return the committed offsets and metadata of a group; None for those that an open transaction may change.

        For partitions in `places` the None is reported even if nothing was committed before that transaction.
        """
        committed_offsets: dict[TopicPartition, Committed | None] = {}
        for asked in (None, places) if places else (None,):
            found, denied = self._offsets(_READING_ONE, [group], asked)
            if denied:
                raise KafkaAuthorizationError(f"The offsets of group {group} cannot be read: {denied[group]}")
            committed_offsets |= found.get(group, {})
        return committed_offsets

    def metadata(self, group: str, places: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        """Return the metadata of the offsets that are committed now, even if an open transaction may change them."""
        found, _ = self._offsets(_READING_ONE, [group], places, is_stable=False)
        return {place: each.metadata for place, each in found.get(group, {}).items() if each is not None}

    def is_current(self, group: str, generation: int, member_id: str) -> bool:
        """Return whether a member's generation is the newest of its group. Sends a heartbeat in the member's name."""
        doing = f"asking group {group} for a member"
        return self._client.run(doing, lambda: self._takes_heartbeat(group, generation, member_id))

    def has_members(self, group: str) -> bool:
        """Return whether a classic group has members, of any protocol type, such as Kafka Connect's workers."""
        doubts: dict[str, str] = {}
        found = self._client.run(f"describing group {group}", lambda: self._classic_members([group], doubts))
        if MAY_NOT_DESCRIBE in doubts.values():
            raise KafkaAuthorizationError(f"Group {group} cannot be described: {MAY_NOT_DESCRIBE}")
        return any(each.members for each in found)

    def look(self) -> list[GroupSubscription]:
        """Return the subscription of every group."""
        return self._client.run("looking at all groups", self._subscriptions)

    def _offsets(
        self,
        doing: str,
        groups: Collection[str],
        places: Collection[TopicPartition] | None = None,
        *,
        is_stable: bool = True,
    ) -> tuple[dict[str, CommittedOffsets], dict[str, str]]:
        return self._client.run(doing, lambda: read_offsets(self._client, groups, places, is_stable=is_stable))

    def _authorized(self) -> frozenset[int]:
        from fencepost.kafka.kafka_library import DescribeClusterRequest

        answer = self._client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
        return frozenset(answer.authorized_operations or ())

    def _takes_heartbeat(self, group: str, generation: int, member_id: str) -> bool:
        from fencepost.kafka.kafka_library import HeartbeatRequest

        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
        for node in by_coordinator(self._client, [group], {}):
            code = self._client.ask(request, node).error_code
            if code in _STALE:
                return False
            if code != KafkaError.REBALANCE_IN_PROGRESS:  # the generation is still the newest
                ensure(code, f"group {group}")
        return True

    def _listed(self) -> list[Any]:
        """Return all groups that the principal may see, as each present broker's ListGroups reports them.

        While a group's coordinator moves, no broker lists the group. So a group that was seen before is then asked
        for by name.
        """
        found = listed_groups(self._client)
        missed = self.seen - {group.group_id for group in found}
        if missed:
            read_offsets(self._client, missed)  # raises while no coordinator has loaded one of them
            found = listed_groups(self._client)
        self.seen = frozenset(group.group_id for group in found)
        return found

    def _subscriptions(self) -> list[GroupSubscription]:
        groups = {group.group_id: group for group in self._listed()}
        kinds = {group: kind_of(listed) for group, listed in groups.items()}
        reading = {g for g, kind in kinds.items() if kind != CLASSIC or groups[g].protocol_type in _OF_CONSUMERS}
        busy = {g for g in reading if groups[g].group_state not in _QUIET}
        doubts: dict[str, str] = {}
        topics: dict[str, set[str]] = {g: set() for g in kinds}
        patterns: dict[str, set[str]] = {}
        of_kind = {kind: [g for g in busy if kinds[g] == kind] for kind in (CLASSIC, CONSUMER, SHARE)}
        for group in self._classic_members(of_kind[CLASSIC], doubts):
            topics[group.group_id].update(classic_topics(group, doubts))
        for group in self._members(of_kind[CONSUMER], CONSUMER, doubts):
            topics[group.group_id].update(subscribed_topics(group))
            patterns[group.group_id] = {m.subscribed_topic_regex for m in group.members if m.subscribed_topic_regex}
        for group in self._members(of_kind[SHARE], SHARE, doubts):
            topics[group.group_id].update(subscribed_topics(group))
        for group in self._members([g for g in kinds if kinds[g] == STREAMS], STREAMS, doubts):
            topics[group.group_id].update(processed_topics(group, doubts))
        for name, of_share in self._share_topics([g for g in kinds if kinds[g] == SHARE], doubts).items():
            topics[name].update(of_share)
        # Members first: offsets that a member commits before it leaves are then still found.
        offsets, denied = read_offsets(self._client, [g for g, kind in kinds.items() if kind != SHARE])
        doubts |= denied
        committed_offsets = {name: numbers(found) for name, found in offsets.items()}
        for name, found in committed_offsets.items():
            topics[name].update(place.topic for place in found)
        for group in busy:
            if kinds[group] not in (*of_kind, STREAMS):
                doubts[group] = f"it is a {kinds[group]} group with members, and what they read cannot be seen"
        return [
            GroupSubscription(
                group, kind, frozenset(topics[group]), tuple(sorted(patterns.get(group, ()))),
                committed_offsets.get(group, {}), doubts.get(group),
            )
            for group, kind in kinds.items()
        ]  # fmt: skip

    def _classic_members(self, groups: Collection[str], doubts: dict[str, str]) -> list[Any]:
        from fencepost.kafka.kafka_library import DescribeGroupsRequest

        found = []
        for node, of_node in by_coordinator(self._client, groups, doubts).items():
            answer = self._client.ask(DescribeGroupsRequest(groups=of_node), node)
            found += [group for group in answer.groups if is_still_there(group, doubts)]
        return found

    def _members(self, groups: Collection[str], kind: str, doubts: dict[str, str]) -> list[Any]:
        if not groups:
            return []
        from fencepost.kafka.group import schema

        message = {
            CONSUMER: schema.ConsumerGroupDescribeRequest,
            SHARE: schema.ShareGroupDescribeRequest,
            STREAMS: schema.StreamsGroupDescribeRequest,
        }[kind]
        found = []
        for node, of_node in by_coordinator(self._client, groups, doubts).items():
            answer = self._client.ask(message(group_ids=of_node, include_authorized_operations=False), node)
            found += [group for group in answer.groups if is_still_there(group, doubts)]
        return found

    def _share_topics(self, groups: Collection[str], doubts: dict[str, str]) -> dict[str, set[str]]:
        if not groups:
            return {}
        from fencepost.kafka.group.schema import DescribeShareGroupOffsetsRequest

        asked = DescribeShareGroupOffsetsRequest.AskedGroup
        found: dict[str, set[str]] = {}
        for node, of_node in by_coordinator(self._client, groups, doubts).items():
            wanted = [asked(group_id=group, topics=None) for group in of_node]
            for group in self._client.ask(DescribeShareGroupOffsetsRequest(groups=wanted), node).groups:
                if is_there(group, doubts):
                    found[group.group_id] = {topic.topic_name for topic in group.topics}
        return found
