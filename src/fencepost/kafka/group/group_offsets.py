"""Reads and changes committed offsets of consumer groups, as their coordinators report them, without librdkafka.

librdkafka may crash the process: it dereferences a null pointer while a coordinator is starting (see `group_admin`).

The metadata of an offset may name the producer that last added it to a transaction (E20). It is committed in the same
transaction as the offset, so it never names a producer whose offset does not count. Other metadata is kept in it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import orjson
from confluent_kafka import KafkaError

from fencepost.kafka.errors import ASK_S, AnswerError, KafkaAuthorizationError, KafkaRequestError, ensure
from fencepost.kafka.value.position import NO_EPOCH, GroupOffset
from fencepost.kafka.wire.coordinators import GROUP
from fencepost.kafka.wire.requests import RequestClient, by_topic
from fencepost.record import TopicPartition

MAY_NOT_DESCRIBE = "the principal may not Describe it"
_VERSION = 8  # of OffsetFetch: many groups in one request, topics by name
_NUL = "\0"  # librdkafka ends the metadata of offsets with one

_BY, _INNER = "fencepost.by", "note"

METADATA_MAX_BYTES = 4096
"""The most bytes of an offset's metadata by default: Kafka's `offset.metadata.max.bytes`."""


class Committed(NamedTuple):
    """The offset of the next record, and the metadata and leader epoch that were committed with it."""

    offset: int
    metadata: str
    leader_epoch: int = NO_EPOCH

    def to_group(self, place: TopicPartition) -> GroupOffset:
        return GroupOffset(*place, self.offset, self.metadata, self.leader_epoch)


Offsets = Mapping[TopicPartition, int | None]
"""The committed offsets of a group; None while an open transaction may change one."""
CommittedOffsets = Mapping[TopicPartition, Committed | None]
"""The same, with metadata."""


def read_offsets(
    client: RequestClient,
    groups: Collection[str],
    places: Collection[TopicPartition] | None = None,
    *,
    is_stable: bool = True,
) -> tuple[dict[str, CommittedOffsets], dict[str, str]]:
    """Return the committed offsets of groups, and why some groups cannot be asked.

    With `is_stable`, an offset that an open transaction may change is None (KIP-447). If all partitions are requested,
    a broker leaves out those whose first offset is still in an open transaction.
    """
    from fencepost.kafka.kafka_library import OffsetFetchRequest

    asked = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = None if places is None else _asked_topics(places)
    found: dict[str, CommittedOffsets] = {}
    denied: dict[str, str] = {}
    for node, of_node in by_coordinator(client, groups, denied).items():
        wanted = [asked(group_id=group, topics=topics) for group in of_node]
        request = OffsetFetchRequest(groups=wanted, require_stable=is_stable)
        for group in client.ask(request, node, oldest=_VERSION, newest=_VERSION).groups:
            if group.error_code == KafkaError.GROUP_AUTHORIZATION_FAILED:
                denied[group.group_id] = MAY_NOT_DESCRIBE
            elif group.error_code != KafkaError.GROUP_ID_NOT_FOUND:  # it has just ended
                ensure(group.error_code, f"group {group.group_id}")
                found[group.group_id] = _committed_now(group)
    return found, denied


def by_coordinator(client: RequestClient, groups: Collection[str], denied: dict[str, str]) -> dict[int, list[str]]:
    """Return the groups of each coordinator. Groups that the principal may not describe are added to `denied`."""
    found: dict[int, list[str]] = {}
    for group, node in (client.coordinators(GROUP, groups) if groups else {}).items():
        if not isinstance(node, AnswerError):
            found.setdefault(node, []).append(group)
        elif node.code == KafkaError.GROUP_AUTHORIZATION_FAILED:
            denied[group] = MAY_NOT_DESCRIBE
        else:
            raise node
    return found


def _asked_topics(places: Collection[TopicPartition]) -> list[Any]:
    from fencepost.kafka.kafka_library import OffsetFetchRequest

    asked = OffsetFetchRequest.OffsetFetchRequestGroup.OffsetFetchRequestTopics
    return [asked(name=topic, partition_indexes=partitions) for topic, partitions in by_topic(places)]


def _committed_now(group: Any) -> CommittedOffsets:
    found: dict[TopicPartition, Committed | None] = {}
    for topic in group.topics:
        for each in topic.partitions:
            if each.error_code == KafkaError.UNSTABLE_OFFSET_COMMIT:
                found[TopicPartition(topic.name, each.partition_index)] = None
                continue
            ensure(each.error_code, f"group {group.group_id}, {topic.name}-{each.partition_index}")
            if each.committed_offset >= 0:
                metadata = (each.metadata or "").rstrip(_NUL)
                committed = Committed(each.committed_offset, metadata, each.committed_leader_epoch)
                found[TopicPartition(topic.name, each.partition_index)] = committed
    return found


def numbers(committed_offsets: CommittedOffsets) -> Offsets:
    """Return the offsets without their metadata."""
    return {place: None if committed is None else committed.offset for place, committed in committed_offsets.items()}


_IN_USE = (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP, KafkaError.GROUP_SUBSCRIBED_TO_TOPIC)
_BY_NAME = 9  # of OffsetCommit: newer versions name topics by their ids


class GroupInUseError(KafkaRequestError):
    """The group has members: its offsets are theirs to commit."""


class GroupOffsets:
    """The offsets of one group. Connects for each call."""

    def __init__(self, conf: Mapping[str, Any], group_id: str, *, timeout_s: float = ASK_S) -> None:
        self._conf = conf
        self._group = group_id
        self._timeout_s = timeout_s

    def read(self) -> dict[TopicPartition, int]:
        """Return the committed offset of each partition, which is that of the next record.

        Like all methods here, it raises KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
        """
        return {TopicPartition(o.topic, o.partition): o.offset for o in self.read_with_metadata()}

    def read_with_metadata(self) -> list[GroupOffset]:
        """Return the committed offsets, with their metadata without the zero byte that librdkafka appends to it."""
        doing = f"reading the offsets of group {self._group}"
        with closing(RequestClient(self._conf, timeout_s=self._timeout_s)) as client:
            found, denied = client.run(doing, lambda: read_offsets(client, [self._group], is_stable=False))
        for why in denied.values():
            raise KafkaAuthorizationError(f"Not authorized while {doing}: {why}")
        committed = found.get(self._group, {})
        return [each.to_group(place) for place, each in committed.items() if each is not None]

    def alter(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set offsets. Raises GroupInUseError if the group has members."""
        self.commit([GroupOffset(*place, offset) for place, offset in offsets.items()])

    def commit(self, offsets: Sequence[GroupOffset]) -> None:
        """Set offsets and their metadata. Raises GroupInUseError if the group has members."""
        from fencepost.kafka.kafka_library import OffsetCommitRequest as Request

        of_topic = Request.OffsetCommitRequestTopic
        topics = [
            of_topic(
                name=topic,
                partitions=[
                    of_topic.OffsetCommitRequestPartition(
                        partition_index=each.partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        committed_metadata=each.metadata,
                    )
                    for each in of_one
                ],
            )
            for topic, of_one in groupby(sorted(offsets), key=lambda each: each.topic)
        ]
        if topics:
            request = Request(
                group_id=self._group,
                generation_id_or_member_epoch=-1,
                member_id="",
                group_instance_id=None,
                retention_time_ms=-1,
                topics=topics,
            )
            self._change("altering", request, newest=_BY_NAME)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Delete the offsets of partitions, if they have any. Raises GroupInUseError if the group has members."""
        from fencepost.kafka.kafka_library import OffsetDeleteRequest as Request

        of_topic = Request.OffsetDeleteRequestTopic
        topics = [
            of_topic(
                name=topic,
                partitions=[of_topic.OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
            )
            for topic, numbers in by_topic(partitions)
        ]
        if topics:
            self._change("deleting", Request(group_id=self._group, topics=topics))

    def delete(self) -> None:
        """Delete the group with all of its offsets. Does nothing if the group does not exist."""
        from fencepost.kafka.kafka_library import DeleteGroupsRequest

        self._change("deleting", DeleteGroupsRequest(groups_names=[self._group]))

    def _change(self, what: str, request: Any, *, newest: int | None = None) -> None:
        doing = f"{what} the offsets of group {self._group}"
        with closing(RequestClient(self._conf, timeout_s=self._timeout_s)) as client:
            try:
                client.run(doing, lambda: self._sent(client, request, newest))
            except KafkaRequestError as error:
                if error.code in _IN_USE:
                    raise GroupInUseError(f"Group {self._group} has members", error.code) from error
                if error.code != KafkaError.GROUP_ID_NOT_FOUND:
                    raise

    def _sent(self, client: RequestClient, request: Any, newest: int | None) -> None:
        answer = client.ask(request, client.coordinator(GROUP, self._group), newest=newest)
        ensure(getattr(answer, "error_code", None) or 0, f"group {self._group}")
        for group in getattr(answer, "results", ()):
            ensure(group.error_code, f"group {self._group}")
        for topic in getattr(answer, "topics", ()):
            for each in topic.partitions:
                ensure(each.error_code, f"{topic.name}-{each.partition_index}")


@dataclass(frozen=True, slots=True)
class Contribution:
    """The producer of an offset: its transactional id, and its producer id and epoch (the incarnation)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    def to_metadata(self, inner_metadata: str = "") -> str:
        """Return the metadata for an offset of this producer; `inner_metadata` is included, and never cut.

        If both together are larger than a broker accepts, return `inner_metadata` alone.
        """
        by: dict[str, object] = {_BY: [self.transactional_id, self.producer_id, self.producer_epoch]}
        if inner_metadata:
            by[_INNER] = inner_metadata
        text = orjson.dumps(by)
        return inner_metadata if len(text) > METADATA_MAX_BYTES else text.decode()


def contribution_of(metadata: str) -> Contribution | None:
    """Return the producer that an offset's metadata names; None if it has another format or is empty."""
    by = _parsed(metadata).get(_BY)
    if not isinstance(by, list) or [type(each) for each in by] != [str, int, int]:
        return None
    return Contribution(*by)


def inner_metadata(metadata: str) -> str:
    """Return an offset's metadata without the producer."""
    parsed = _parsed(metadata)
    return str(parsed.get(_INNER, "")) if _BY in parsed else metadata


def _parsed(metadata: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(metadata)
    except orjson.JSONDecodeError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
