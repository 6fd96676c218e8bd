"""The coordinator of a transactional id, the producer that it knows under that id, and the larger requests to it."""

import secrets
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from fencepost.kafka.codec.encode import unsigned
from fencepost.kafka.errors import BUSY, MOVED, AnswerError, ensure, retry_on
from fencepost.kafka.setting.batch_settings import BatchSettings
from fencepost.kafka.value.position import Committer, GroupOffset
from fencepost.kafka.wire.cluster import Cluster, ask_node
from fencepost.kafka.wire.connection import Connection
from fencepost.kafka.wire.coordinators import TRANSACTION
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


_ASK_AGAIN_S = 0.0005
_NEWEST_VERSION = 2
_FEATURE = "transaction.version"
_MOVING_S = 10.0
ELSEWHERE = MOVED | frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
    }
)


class RequestVersions(NamedTuple):
    """The (oldest, newest) versions of requests that belong to one version of the transaction protocol."""

    produce: tuple[int, int]
    offsets: tuple[int, int]
    end: tuple[int, int]


# TxnOffsetCommit checks the member since version 3. Produce gives the reason of a refusal since version 8.
_VERSIONS = {1: RequestVersions((8, 11), (3, 4), (0, 4)), 2: RequestVersions((12, 12), (5, 5), (5, 5))}


@dataclass
class OpenTransaction:
    """What brokers know of the open transaction."""

    joined: set[TopicPartition] = field(default_factory=set)  # partitions that the coordinator knows
    produced: set[TopicPartition] = field(default_factory=set)  # partitions whose leaders have asked the coordinator
    sent: dict[TopicPartition, Connection] = field(default_factory=dict)  # where batches were sent last
    is_begun: bool = False
    """Whether the coordinator may know of the transaction, so that there is something to end."""

    def clear(self) -> None:
        self.joined.clear()
        self.produced.clear()
        self.sent.clear()
        self.is_begun = False


class TransactionCoordinator:
    """Asks the coordinator of one transactional id. For one incarnation.

    `version` is that of the transaction protocol, `producer` who sends, `sequences` has the next sequence of each
    partition that this producer has written to, and `offsets` that of the last record there, as far as it is known.
    """

    def __init__(self, cluster: Cluster, settings: BatchSettings) -> None:
        self._cluster = cluster
        self._node = -1
        self.settings = settings
        self.version = 1
        self.producer = ProducerIdentity(settings.transactional_id, -1, -1)
        self.sequences: dict[TopicPartition, int] = {}
        self.offsets: dict[TopicPartition, int] = {}

    @property
    def versions(self) -> RequestVersions:
        return _VERSIONS[self.version]

    def take_over(self, deadline_s: float) -> None:
        """Take over the id, and choose the protocol version: the cluster's, if all brokers support it."""
        answer = retry_on(lambda: self._init(deadline_s), BUSY | MOVED, deadline_s, 20 * _ASK_AGAIN_S)
        self._become(answer)

    def _become(self, answer: Any) -> None:
        self.producer = self.producer._replace(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)
        self.sequences.clear()

    def _init(self, deadline_s: float) -> Any:
        from fencepost.kafka.kafka_library import InitProducerIdRequest

        self._find(deadline_s)
        connection = self._cluster.connection(self._node, deadline_s)
        self.version = min(_NEWEST_VERSION, max(1, connection.features.get(_FEATURE, 0)))
        request = InitProducerIdRequest(
            **self.producer._replace(producer_id=-1, producer_epoch=-1)._asdict(),
            transaction_timeout_ms=self.settings.transaction_timeout_ms,
        )
        answer = self._ask(request, (0, 4), deadline_s)
        ensure(answer.error_code, f"InitProducerId of {self.settings.transactional_id}")
        return answer

    def add_partitions(self, places: Sequence[TopicPartition], deadline_s: float) -> None:
        """Add partitions to the transaction (version 1)."""
        self._until_added(lambda: self._add_partitions(places, deadline_s), deadline_s)

    def add_group(self, group_id: str, deadline_s: float) -> None:
        """Add a group's offsets to the transaction (version 1)."""
        self._until_added(lambda: self._add_group(group_id, deadline_s), deadline_s)

    def _until_added(self, add: Callable[[], None], deadline_s: float) -> None:
        """Ask the coordinator to add something. If the coordinator has moved, ask the new one.

        E21: a coordinator that is deposed while it waits for its replicas may have added it. Adding twice is harmless.
        """

        def once() -> None:
            try:
                add()
            except AnswerError as error:
                if error.code in MOVED:
                    self._find(deadline_s)
                raise

        until_known(once, deadline_s)

    def _find(self, deadline_s: float) -> None:
        self._node = self._cluster.coordinators.find(TRANSACTION, self.settings.transactional_id, deadline_s)

    def _add_partitions(self, places: Sequence[TopicPartition], deadline_s: float) -> None:
        answer = self._ask(add_partitions(self.producer, places), (0, 3), deadline_s)
        codes = {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        # All are added or none. Partitions that are not at fault get the error "not attempted".
        failed = {place: code for place, code in codes.items() if code}
        for place, code in sorted(failed.items(), key=lambda each: each[1] == KafkaError.OPERATION_NOT_ATTEMPTED):
            raise AnswerError(code, f"record for topic {place.topic}")

    def _add_group(self, group_id: str, deadline_s: float) -> None:
        from fencepost.kafka.kafka_library import AddOffsetsToTxnRequest

        request = AddOffsetsToTxnRequest(**self.producer._asdict(), group_id=group_id)
        answer = self._ask(request, (0, 3), deadline_s)
        ensure(answer.error_code, f"offsets of group {group_id}")

    def end(self, *, is_commit: bool, deadline_s: float) -> None:
        """End the transaction. With version 2 this gives the producer a new epoch."""
        answer = retry_on(lambda: self._end(is_commit, deadline_s), BUSY, deadline_s, _ASK_AGAIN_S)
        if self.version > 1:
            self._become(answer)

    def _end(self, is_commit: bool, deadline_s: float) -> Any:
        from fencepost.kafka.kafka_library import EndTxnRequest

        request = EndTxnRequest(**self.producer._asdict(), committed=is_commit)
        answer = self._ask(request, self.versions.end, deadline_s)
        ensure(answer.error_code, f"the end of a transaction of {self.settings.transactional_id}")
        return answer

    def _ask(self, request: Any, versions: tuple[int, int], deadline_s: float) -> Any:
        return ask_node(self._cluster, self._node, request, versions, deadline_s)


def until_known(send: Callable[[], None], deadline_s: float) -> None:
    """Retry while the coordinator is busy and, for a while, until brokers agree on the leader of a partition.

    Not all brokers learn of a new topic or a new leader at the same time.
    """
    soon_s = min(deadline_s, time.monotonic() + _MOVING_S)
    # E21: brokers send each of these answers before they carry out any of the request, except a leader that is deposed
    # while it waits for replicas. The next leader then recognizes the batch by its sequence and does not append it.
    retry_on(lambda: retry_on(send, BUSY, deadline_s, _ASK_AGAIN_S), ELSEWHERE, soon_s, 20 * _ASK_AGAIN_S)
