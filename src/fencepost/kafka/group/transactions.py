"""Lists and describes transactions and producers. librdkafka has no such requests."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fencepost.kafka.errors import AnswerError, ensure
from fencepost.kafka.wire.coordinators import TRANSACTION
from fencepost.kafka.wire.requests import RequestClient

_UNKNOWN_ID = 105  # TRANSACTIONAL_ID_NOT_FOUND


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id as its coordinator reports it. `state` is Kafka's word, such as Ongoing or CompleteCommit.

    In a list of transactions, only the first three are known.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int = -1
    timeout_ms: int | None = None
    started_ms: int | None = None
    topic_partitions: frozenset[tuple[str, int]] = frozenset()


class TransactionAdmin:
    """Lists and describes transactions. Connects at the first request; `close` it. Thread-safe.

    Every method raises KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float = 10.0) -> None:
        self.client = RequestClient(conf, timeout_s=timeout_s)

    def list(self, states: Sequence[str] = (), producer_ids: Sequence[int] = ()) -> list[Transaction]:
        """Return every transactional id that the brokers know, or only those in `states`, or of `producer_ids`.

        Ids that the principal may not Describe are left out.
        """
        from fencepost.kafka.kafka_library import ListTransactionsRequest

        request = ListTransactionsRequest(state_filters=[*states], producer_id_filters=[*producer_ids])

        def ask() -> Iterable[Transaction]:
            for node in self.client.brokers():
                answer = self.client.ask(request, node)
                ensure(answer.error_code, "the list of transactions")
                for each in answer.transaction_states:
                    yield Transaction(each.transactional_id, each.transaction_state, each.producer_id)

        return self.client.run("listing transactions", lambda: [*ask()])

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        """Return the details of the given ids. Unknown ids are left out."""
        ids = [*dict.fromkeys(transactional_ids)]
        if not ids:
            return {}
        named = f"transactional id {ids[0]}" if len(ids) == 1 else f"{len(ids)} transactional ids"
        return self.client.run(f"describing {named}", lambda: self._described(ids))

    def producers(self, topic: str, partition: int) -> dict[int, tuple[int, int]]:
        """Return the producers with an open transaction in a partition: producer id to (epoch, first offset there).

        This takes Read on the topic.
        """
        from fencepost.kafka.kafka_library import DescribeProducersRequest as Request

        request = Request(topics=[Request.TopicRequest(name=topic, partition_indexes=[partition])])

        def ask() -> dict[int, tuple[int, int]]:
            found = self.client.ask(request, self.client.leader(topic, partition)).topics[0].partitions[0]
            ensure(found.error_code, f"{topic}-{partition}", found.error_message)
            return {
                each.producer_id: (each.producer_epoch, each.current_txn_start_offset)
                for each in found.active_producers
                if each.current_txn_start_offset >= 0
            }

        return self.client.run(f"describing the producers of {topic}-{partition}", ask)

    def close(self) -> None:
        """Close the connections. Idempotent; another request connects again."""
        self.client.close()

    def _described(self, ids: Sequence[str]) -> dict[str, Transaction]:
        from fencepost.kafka.kafka_library import DescribeTransactionsRequest

        of_node: dict[int, list[str]] = {}
        for id_, node in self.client.coordinators(TRANSACTION, ids).items():
            if isinstance(node, AnswerError):
                raise node
            of_node.setdefault(node, []).append(id_)
        found = {}
        for node, asked in of_node.items():
            answer = self.client.ask(DescribeTransactionsRequest(transactional_ids=asked), node)
            for each in answer.transaction_states:
                if each.error_code != _UNKNOWN_ID:
                    ensure(each.error_code, f"transactional id {each.transactional_id}")
                    found[each.transactional_id] = _transaction(each)
        return found


def _transaction(described: Any) -> Transaction:
    return Transaction(
        described.transactional_id,
        described.transaction_state,
        described.producer_id,
        described.producer_epoch,
        described.transaction_timeout_ms,
        described.transaction_start_time_ms,
        frozenset((each.topic, number) for each in described.topics for number in each.partitions),
    )
