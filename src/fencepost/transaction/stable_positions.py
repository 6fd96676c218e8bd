"""Where a stream task begins: positions that nobody is about to change (KIP-447's PendingTransaction, E20)."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.kafka.topic_readers import Committed
from fencepost.record import TopicPartition
from fencepost.transaction.input_fence import Fenced


@dataclass(frozen=True, slots=True)
class Waiting:
    """Partitions whose offsets are pending, and whose: a text for people."""

    places: frozenset[TopicPartition]
    why: str


class StablePositions:
    """Reads where a group stands, once nobody is about to change it. For the thread of one task.

    The order is: fence ▸ read stable ▸ as long as that is pending: fence ▸ read again.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        own_ids: Collection[str] = (),
        *,
        on_fenced: Callable[[Fenced], None] = lambda _: None,
        on_waiting: Callable[[Waiting | None], None] = lambda _: None,
        is_over: Callable[[], bool] = lambda: False,
        timeout_s: float = 60.0,
    ) -> None:
        """`on_fenced` and `on_waiting` are told what happens; None: it waits no more. `is_over`: nobody needs them."""
        raise NotImplementedError

    def read(
        self, group: str, places: Collection[TopicPartition], is_current: Callable[[], bool] = lambda: True
    ) -> dict[TopicPartition, Committed]:
        """Return where the group stands; what has no offset is left out, and nothing that is pending ever is.

        Waits as long as the longest of the transactions in the way may take, at most. Raises ReadTimeoutError then,
        and KafkaUnavailableError, KafkaAuthorizationError or KafkaRequestError.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the connections. Idempotent."""
