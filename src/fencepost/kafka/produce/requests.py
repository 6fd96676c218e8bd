"""Builds the larger requests of a transaction with kafka-python's classes."""

import secrets
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from fencepost.kafka.codec.encode_field import unsigned
from fencepost.kafka.value.group_metadata import Committer
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.wire.frame import Data
from fencepost.kafka.wire.requests import by_topic
from fencepost.record import TopicPartition

_SIZE = struct.Struct(">i")
_MARK_BYTES = 16
_MOST_FORMS = 64


class ProducerIdentity(NamedTuple):
    """The sender of requests: the transactional id with its present producer id and epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def add_partitions(producer: ProducerIdentity, places: Sequence[TopicPartition]) -> Any:
    from fencepost.kafka.kafka_library import AddPartitionsToTxnRequest as Request

    named = {f"v3_and_below_{name}": value for name, value in producer._asdict().items()}
    topics = [Request.AddPartitionsToTxnTopic(name=topic, partitions=found) for topic, found in by_topic(places)]
    return Request(**named, v3_and_below_topics=topics)


def produce(transactional_id: str, batches: Mapping[TopicPartition, Data], acknowledged_within_ms: int) -> Any:
    from fencepost.kafka.kafka_library import ProduceRequest as Request

    topic_data = Request.TopicProduceData

    def of(topic: str, index: int) -> Any:
        return topic_data.PartitionProduceData(index=index, records=batches[TopicPartition(topic, index)])

    topics = [topic_data(name=name, partition_data=[of(name, at) for at in found]) for name, found in by_topic(batches)]
    return Request(transactional_id=transactional_id, acks=-1, timeout_ms=acknowledged_within_ms, topic_data=topics)


class ProduceForm(NamedTuple):
    """A Produce request without its batches: the bytes before the size of each batch, in the order of partitions."""

    before: tuple[bytes, ...]
    places: tuple[TopicPartition, ...]
    end: bytes
    is_compact: bool

    def filled(self, batches: Mapping[TopicPartition, Data]) -> list[Data]:
        """Return the request's body, in pieces."""
        body: list[Data] = []
        for before, place in zip(self.before, self.places, strict=True):
            size = len(batches[place])
            body += before, unsigned(size + 1) if self.is_compact else _SIZE.pack(size), batches[place]
        return [*body, self.end]


@lru_cache(_MOST_FORMS)
def produce_form(
    transactional_id: str, places: frozenset[TopicPartition], acknowledged_within_ms: int, version: int
) -> ProduceForm:
    """Return the form of requests for these partitions. kafka-python encodes it with marks, which are then cut out.

    It can be reused, because the next transaction usually has the same partitions.
    """
    marks = {place: secrets.token_bytes(_MARK_BYTES) for place in places}
    request = produce(transactional_id, marks, acknowledged_within_ms)
    data, is_compact = request.encode(version), request.flexible_version_q(version)
    size_bytes = 1 if is_compact else _SIZE.size
    before: list[bytes] = []
    at = 0
    order = sorted(places)
    for place in order:
        found = data.index(marks[place], at)
        before.append(data[at : found - size_bytes])
        at = found + _MARK_BYTES
    return ProduceForm(tuple(before), tuple(order), data[at:], is_compact)


def group_offsets(producer: ProducerIdentity, member: Committer, offsets: Sequence[GroupOffset]) -> Any:
    from fencepost.kafka.kafka_library import TxnOffsetCommitRequest as Request

    of_topic = Request.TxnOffsetCommitRequestTopic
    by_place = {TopicPartition(each.topic, each.partition): each for each in offsets if each.offset >= 0}

    def of_partition(place: TopicPartition) -> Any:
        return of_topic.TxnOffsetCommitRequestPartition(
            partition_index=place.partition,
            committed_offset=by_place[place].offset,
            committed_leader_epoch=by_place[place].leader_epoch,
            committed_metadata=by_place[place].metadata,
        )

    return Request(
        **producer._asdict(),
        group_id=member.group_id,
        generation_id=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=[
            of_topic(name=topic, partitions=[of_partition(TopicPartition(topic, index)) for index in found])
            for topic, found in by_topic(by_place)
        ],
    )
