"""The conflict of KIP-447: nobody else has a transaction open over the input that a task is about to begin with (E20).

Such a transaction may still commit the offsets that the task would begin at. Its producer is fenced at once, as its
own successor would fence it; waiting would end with the time-out of its transaction. Only the owner of a partition in
the current generation of the group asks, so that two never fence each other in turns: of two that meet, one is stale.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from fencepost.kafka.contributors import Contributor
from fencepost.record import TopicPartition


class Fenced(NamedTuple):
    """A producer that was fenced, and for which partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    places: frozenset[TopicPartition]


class InputFence:
    """Fences producers by the input they contribute offsets of. Connects at the first use; one thread.

    To fence takes Write on the transactional id, besides what `Contributors` takes. Raises what `Contributors` does.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float = 30.0) -> None:
        """`conf` in librdkafka's names: where to connect, and as whom."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the connections. Idempotent."""

    def clear(
        self,
        group: str,
        places: Collection[TopicPartition],
        own_ids: Collection[str] = (),
        *,
        is_current: Callable[[], bool] = lambda: True,
    ) -> list[Fenced]:
        """Fence who has a transaction open over one of these partitions, and return them; their offsets are gone then.

        Fenced are also those that last held one of `places` by a producer of that partition alone, open or not:
        nothing but their id keeps them from going on. `own_ids` are the asker's, who has fenced their older
        incarnations by taking them. `is_current` is asked right before anybody is fenced; where it says no, nobody is.

        Raises FencedError where the pending one is the asker's own successor.
        """
        raise NotImplementedError

    def fence(self, contributors: Collection[Contributor]) -> list[Fenced]:
        """Fence these, whatever they do, and end their transactions. For who has decided that by itself."""
        raise NotImplementedError
