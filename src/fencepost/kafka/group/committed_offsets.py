"""Committed offsets of groups, as their coordinators report them."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.log_gap import NO_EPOCH
from fencepost.kafka.wire.coordinators import GROUP
from fencepost.kafka.wire.errors import AnswerError, ensure
from fencepost.kafka.wire.requests import RequestClient, by_topic
from fencepost.record import TopicPartition

MAY_NOT_DESCRIBE = "the principal may not Describe it"
_VERSION = 8  # of OffsetFetch: many groups in one request, topics by name
_NUL = "\0"  # librdkafka ends the metadata of offsets with one


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
