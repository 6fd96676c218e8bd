"""The interface that a TransactionalWriter needs: implemented with librdkafka (`producer.py`) and by `batch_client.py`.

Each call raises `ProducerError` if it fails, and `ForkedClientError` in any process but the one that created the client
(E8). For every client the failure of a call means:

- of `commit`: it is unknown whether the transaction is committed (E6);
- of any earlier call: the transaction is certainly not committed, unless it is committed later.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.value.position import GroupOffset
from fencepost.kafka.value.whole import PlacedBatch, PlacedRecords, placed_records

_FENCED = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
_MEMBERSHIP = {
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
}
_DENIED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}
LET_PASS = "the producer sends none above its max.request.size: raise producer.override.max.request.size"
OFFSETS_REFUSED = "the group's offsets are not accepted"
_REFUSED_BATCH = {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}
_REFUSED_RECORD = {
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._INVALID_ARG,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
    KafkaError.INVALID_TIMESTAMP,
}


class Failure(Enum):
    """What an error of the client means to its caller."""

    FENCED = auto()
    MEMBERSHIP = auto()
    DENIED = auto()
    REFUSED_RECORD = auto()
    REFUSED_BATCH = auto()  # its records may get through in a smaller batch
    PASSING = auto()
    FATAL = auto()


class ProducerError(Exception):
    """An error of the client, classified. The text is the client's."""

    def __init__(self, failure: Failure, text: str) -> None:
        super().__init__(text)
        self.failure = failure


def classify(error: KafkaError) -> Failure:
    """Return what a KafkaError means."""
    code = error.code()
    for codes, failure in (
        (_FENCED, Failure.FENCED),
        (_MEMBERSHIP, Failure.MEMBERSHIP),
        (_DENIED, Failure.DENIED),
        (_REFUSED_RECORD, Failure.REFUSED_RECORD),
        (_REFUSED_BATCH, Failure.REFUSED_BATCH),
    ):
        if code in codes:
            return failure
    return Failure.FATAL if error.fatal() else Failure.PASSING


class RecordProducer(ABC):
    """One producer of records. For one thread at a time; `drop` is for any thread."""

    failed_delivery: ProducerError | None = None
    """The refusal of a record. `flush` raises it, until the transaction of the record, if any, is aborted (E1)."""

    @property
    @abstractmethod
    def strikes(self) -> int:
        """Return how often, so far, a request was sent again, timed out, or lost its connection (E5)."""

    @property
    @abstractmethod
    def last_strike(self) -> str | None:
        """Return the text that reported the last strike."""

    @abstractmethod
    def produce(self, topic: str, value: bytes | None, **fields: Any) -> None:
        """Enqueue one record, waiting while the queue is full.

        `fields`: key, partition, timestamp (ms), headers ([(name, bytes)]), and on_delivery(error, message), which is
        called for successes only if `delivery.report.only.error` is off.
        """

    @abstractmethod
    def produce_columns(
        self, topics: Sequence[str], values: Sequence[bytes | None], keys: Sequence[bytes | None]
    ) -> None:
        """Enqueue records with a value and a key, in order. One topic, or no key, for all of them is a Repeated."""

    @abstractmethod
    def produce_placed(self, records: PlacedRecords) -> None:
        """Enqueue records with more fields than topic, key and value, in order."""

    def produce_whole(self, batches: Sequence[PlacedBatch]) -> None:
        """Enqueue batches, in order, each to its partition. A client that makes its own batches uses their records."""
        for each in batches:
            self.produce_placed(placed_records(each))

    @abstractmethod
    def flush(self, timeout_s: float) -> None:
        """Wait until every record is in the log. Fails if one was refused (E1)."""

    @abstractmethod
    def drop(self) -> None:
        """Drop the client at once, without flushing, committing or aborting (E6). Idempotent. It sends nothing more."""


class TransactionalClient(RecordProducer):
    """One producer with a transactional id."""

    @property
    def is_slow(self) -> bool:
        """Return whether time ran out while brokers kept answering: there was too much to send for healthy brokers."""
        return False

    def connect(self, topic: str, timeout_s: float) -> None:
        """Connect before `init_transactions`, where that makes it faster; `topic` is one that may be described.

        Waits for at most `timeout_s`, and reports no problem: `init_transactions` will meet it.
        """

    @abstractmethod
    def init_transactions(self, timeout_s: float) -> None:
        """Fence the predecessor and end its transaction (E2). Retries temporary errors until `timeout_s` is over.

        May be called again after a failure.
        """

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction, locally: brokers do not learn of it yet."""

    @abstractmethod
    def begin_offsets(self, offsets: Sequence[GroupOffset], group_metadata: Any, timeout_s: float) -> None:
        """Start adding offsets of a consumer group to the transaction (KIP-447) while records are sent.

        `await_offsets` waits for that. Raises ValueError without an offset of 0 or more: the coordinator would not
        check that the member is current (E4, E10).
        """

    @abstractmethod
    def await_offsets(self) -> None:
        """Wait until the offsets of `begin_offsets`, if any, are in the transaction.

        If an offset's topic is gone, this fails within seconds with a temporary error: a restarted task no longer reads
        that topic.
        """

    @abstractmethod
    def commit(self, timeout_s: float) -> None:
        """Commit what was flushed. After any failure the outcome is unknown (E6)."""

    @abstractmethod
    def abort(self, timeout_s: float) -> None:
        """Abort the transaction. If this fails, the next producer with the id ends it."""


def ensure_checked(offsets: Sequence[GroupOffset]) -> None:
    """Raise ValueError if no offset would make the coordinator check the committing member (E10)."""
    if not any(each.offset >= 0 for each in offsets):
        raise ValueError("group metadata is checked only together with an offset of 0 or more")
