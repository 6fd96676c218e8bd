"""Lists and describes transactions and producers through kafka-python; librdkafka has no such calls."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    TransactionalIdNotFoundError,
)
from kafka.structs import TopicPartition as ClientPartition

from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.wire.kafka_python import kafka_python_admin

T = TypeVar("T")

_DENIED = (ClusterAuthorizationFailedError, TopicAuthorizationFailedError, TransactionalIdAuthorizationFailedError)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id as its coordinator reports it. `state` is Kafka's word, such as Ongoing or CompleteCommit."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int | None = None
    timeout_ms: int | None = None
    started_ms: int | None = None
    topic_partitions: frozenset[tuple[str, int]] = frozenset()


class TransactionAdmin:
    """Lists and describes transactions. Connects at construction; `close` it. Thread-safe as kafka-python is."""

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float = 10.0) -> None:
        self._guard = ForkGuard()
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._client = self._run("connecting", lambda: kafka_python_admin(conf, timeout_s))

    def list(self, states: Sequence[str] = (), producer_ids: Sequence[int] = ()) -> list[Transaction]:
        """Return every transactional id that the brokers know, or only those in `states`, or of `producer_ids`.

        Ids that the principal may not Describe are left out.
        """
        found = self._run(
            "listing transactions",
            lambda: self._client.list_transactions(
                state_filters=list(states) or None, producer_id_filters=list(producer_ids) or None
            ),
        )
        return [
            Transaction(t.transactional_id, t.state.value, t.producer_id)
            for listings in found.values()
            for t in listings
        ]

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """Return the details of the given ids. Unknown ids are left out."""
        found = (self._describe_one(transactional_id) for transactional_id in transactional_ids)
        return {t.transactional_id: t for t in found if t is not None}

    def producers(self, topic: str, partition: int) -> dict[int, tuple[int, int]]:
        """Return the producers with an open transaction in a partition: producer id to (epoch, first offset there).

        This takes Read on the topic.
        """
        place = ClientPartition(topic, partition)
        found = self._run(
            f"describing the producers of {topic}-{partition}", lambda: self._client.describe_producers([place])
        )[place]
        return {
            p.producer_id: (p.producer_epoch, p.current_transaction_start_offset)
            for p in found.active_producers
            if p.current_transaction_start_offset >= 0
        }

    def ask(self, doing: str, how: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a coroutine function that sends its own requests. It receives the client and `arguments`."""
        found: T = self._run(doing, lambda: self._client._manager.run(how, self._client, *arguments))
        return found

    def close(self) -> None:
        self._client.close()

    def _describe_one(self, transactional_id: str) -> Transaction | None:
        try:
            d = self._run(
                f"describing transactional id {transactional_id}",
                lambda: self._client.describe_transactions([transactional_id])[transactional_id],
            )
        except LookupError:
            return None
        parts = frozenset((tp.topic, tp.partition) for tp in d.topic_partitions)
        return Transaction(
            transactional_id,
            d.state.value,
            d.producer_id,
            d.producer_epoch,
            d.transaction_timeout_ms,
            d.transaction_start_time_ms,
            parts,
        )

    def _run(self, doing: str, call: Any) -> Any:
        self._guard.check("The transaction admin client")
        try:
            return call()
        except TransactionalIdNotFoundError as error:
            raise LookupError(str(error)) from error
        except _DENIED as error:
            raise KafkaAuthorizationError(f"Not authorized while {doing}: {error}") from error
        except (KafkaConnectionError, KafkaTimeoutError) as error:
            raise KafkaUnavailableError(
                f"Kafka did not answer while {doing} (bootstrap.servers={self._bootstrap}): {error}"
            ) from error
        except KafkaError as error:
            kind = KafkaUnavailableError if getattr(error, "retriable", False) else None
            if kind is not None:
                raise kind(f"Kafka did not answer while {doing}: {error}") from error
            raise KafkaRequestError(f"Failed {doing}: {error}", getattr(error, "errno", -1)) from error
