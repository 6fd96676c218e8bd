"""The coordinator of a transactional id, and the producer that it knows under that id."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from fencepost.kafka.produce import requests
from fencepost.kafka.produce.requests import ProducerIdentity
from fencepost.kafka.setting.batch_settings import BatchSettings
from fencepost.kafka.wire.cluster import Cluster
from fencepost.kafka.wire.connection import Connection
from fencepost.kafka.wire.coordinators import TRANSACTION
from fencepost.kafka.wire.errors import BUSY, MOVED, AnswerError, ensure, retry_on
from fencepost.kafka.wire.patience import ask_node
from fencepost.record import TopicPartition

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
        answer = self._ask(requests.add_partitions(self.producer, places), (0, 3), deadline_s)
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
