"""What a TransactionalWriter needs of a Kafka client; librdkafka is one (`producer.py`), `batch` another.

Each call raises `ProducerError` where it cannot do what it is for, and `ForkedClientError` in any other process than
the one that made the client (E8). What the failure of a call means is said here once, for every client:

- of `commit`: nobody knows whether the transaction is committed (E6);
- of anything before it: the transaction is certainly not committed, unless somebody commits it later.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum, auto
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.placed import PlacedRecords
from fencepost.kafka.value.whole import PlacedBatch, placed_records

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
    """What an error of the client means to whoever called it."""

    FENCED = auto()
    MEMBERSHIP = auto()
    DENIED = auto()
    REFUSED_RECORD = auto()
    REFUSED_BATCH = auto()  # of records that a smaller batch may bring through
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


class TransactionalClient(ABC):
    """One producer with a transactional id, used by one thread at a time; `drop` by any."""

    is_slow = False
    """Whether the time was up while brokers went on answering: there was too much to send, and no trouble with them."""

    failed_delivery: ProducerError | None = None
    """A record of the open transaction that was refused: `flush` raises it until the transaction is aborted (E1)."""

    @property
    @abstractmethod
    def strikes(self) -> int:
        """Return how often a request was sent again, timed out, or lost its connection so far (E5)."""

    @property
    @abstractmethod
    def last_strike(self) -> str | None:
        """Return what told of the last strike."""

    @abstractmethod
    def init_transactions(self, timeout_s: float) -> None:
        """Fence the predecessor and end its transaction (E2); what is passing is tried again until `timeout_s`.

        May be called again after a failure.
        """

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction; nobody else is told of it yet."""

    @abstractmethod
    def produce(self, topic: str, value: bytes | None, **fields: Any) -> None:
        """Enqueue one record, waiting while the queue is full.

        `fields`: key, partition, timestamp (ms), headers ([(name, bytes)]), on_delivery(error, message), which is
        called for successes only where `delivery.report.only.error` is off.
        """

    @abstractmethod
    def produce_column(self, topic: str, values: Sequence[bytes | None]) -> None:
        """Enqueue values without keys, in order."""

    @abstractmethod
    def produce_columns(
        self, topics: Sequence[str], values: Sequence[bytes | None], keys: Sequence[bytes | None]
    ) -> None:
        """Enqueue records of a topic, a value and a key each, in order."""

    @abstractmethod
    def produce_placed(self, records: PlacedRecords) -> None:
        """Enqueue records that say more than topic, key and value, in order."""

    def produce_whole(self, batches: Sequence[PlacedBatch]) -> None:
        """Enqueue batches, in order, each to its partition; a client that makes batches itself takes their records."""
        for each in batches:
            self.produce_placed(placed_records(each))

    @abstractmethod
    def flush(self, timeout_s: float) -> None:
        """Wait until every record of the transaction is in the log; fails where one was refused (E1)."""

    def send_offsets(self, offsets: Sequence[GroupOffset], group_metadata: Any, timeout_s: float) -> None:
        """Add offsets of a consumer group to the transaction (KIP-447). Raises what the two halves of this raise."""
        self.begin_offsets(offsets, group_metadata, timeout_s)
        self.await_offsets()

    @abstractmethod
    def begin_offsets(self, offsets: Sequence[GroupOffset], group_metadata: Any, timeout_s: float) -> None:
        """Begin to add offsets of a consumer group to the transaction, beside what is sent; `await_offsets` ends it.

        Raises ValueError without an offset of 0 or more: the coordinator is then not asked whether the member is
        current (E4, E10).
        """

    @abstractmethod
    def await_offsets(self) -> None:
        """Wait for offsets that were begun, if there are any.

        Where one is of a topic that is gone, that is told within seconds and passes: whoever begins anew reads it no
        more.
        """

    @abstractmethod
    def commit(self, timeout_s: float) -> None:
        """Commit what was flushed. Any failure: unknown (E6)."""

    @abstractmethod
    def abort(self, timeout_s: float) -> None:
        """Abort the transaction. A failure: whoever opens the id next ends it."""

    @abstractmethod
    def drop(self) -> None:
        """Let go at once, without flushing, committing or aborting anything (E6). Idempotent; sends nothing more."""


def ensure_checked(offsets: Sequence[GroupOffset]) -> None:
    """Raise ValueError where there is no offset for which a coordinator would look at who commits it (E10)."""
    if not any(each.offset >= 0 for each in offsets):
        raise ValueError("group metadata is checked only together with an offset of 0 or more")
