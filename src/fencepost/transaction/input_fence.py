"""The conflict of KIP-447: nobody else has a transaction open over the input that a task is about to begin with (E20).

Such a transaction may still commit the offsets that the task would begin at. Its producer is fenced at once, as its
own successor would fence it; waiting would end with the time-out of its transaction. Only the owner of a partition in
the current generation of the group asks, so that two never fence each other in turns: of two that meet, one is stale.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from fencepost.kafka.contributors import Contributor, Contributors
from fencepost.record import TopicPartition
from fencepost.transaction.fencing import fence

log = logging.getLogger(__name__)


class Fenced(NamedTuple):
    """A producer that was fenced, and for which partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    places: frozenset[TopicPartition]


class InputFence:
    """Fences producers by the input they contribute offsets of. Connects at the first use; one thread.

    It takes Write on the transactional ids that are fenced, besides what `Contributors` takes.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float = 30.0) -> None:
        """`conf` is that of a producer, in librdkafka's names."""
        self._conf = dict(conf)
        self._timeout_s = timeout_s
        self.contributors = Contributors(conf, timeout_s=timeout_s)
        self._locked_out: dict[str, tuple[int, int]] = {}  # what we have left of an id

    def close(self) -> None:
        """Let go of the connections. Idempotent."""
        self.contributors.close()

    def clear(
        self,
        group: str,
        places: Collection[TopicPartition],
        own_ids: Collection[str] = (),
        *,
        is_current: Callable[[], bool] = lambda: True,
        seeks_holders: bool = True,
    ) -> list[Fenced]:
        """Fence who has a transaction open over one of these partitions, and return them; their offsets are gone then.

        Where `seeks_holders`, also the producers that are each for one of `places` alone, open or not: nothing but
        their id keeps them from going on. `own_ids` are the asker's, who has fenced older incarnations by taking them.
        `is_current` is asked right before anybody is fenced; where it says no, nobody is: the asker has a successor.

        Raises what `Contributors` does, and WriterOpenError where an id cannot be taken.
        """
        found = self.contributors.pending(group, places)
        if seeks_holders:
            known = {each.transactional_id for each in found}
            found += [each for each in self.contributors.holders(group, places) if each.transactional_id not in known]
        due = [each for each in found if each.transactional_id not in own_ids and self._is_loose(each)]
        if not due or not is_current():
            return []
        return [each._replace(places=each.places & frozenset(places)) for each in self.fence(due)]

    def fence(self, contributors: Collection[Contributor]) -> list[Fenced]:
        """Fence these, whatever they do, and end their transactions; who has no id that is known is left out.

        Returns once all of their offsets are gone. Raises what `clear` does.
        """
        named = {each.transactional_id: each for each in contributors if each.transactional_id is not None}
        fence(named, lambda id_: self._conf, self._timeout_s)
        for id_, transaction in self.contributors.described(named).items():
            self._locked_out[id_] = (transaction.producer_id, transaction.producer_epoch)
        return [
            Fenced(id_, each.producer_id, each.producer_epoch, frozenset(each.offsets)) for id_, each in named.items()
        ]

    def _is_loose(self, contributor: Contributor) -> bool:
        """Say whether there is somebody to fence: an id that nobody has taken since we did is locked out."""
        id_ = contributor.transactional_id
        if id_ is None:
            log.warning(
                "producer %d has offsets of %s in a transaction, and cannot be fenced: no transactional id of it is "
                "told (the principal may need Describe on it)",
                contributor.producer_id,
                ", ".join(f"{place.topic}-{place.partition}" for place in contributor.offsets),
            )
            return False
        return contributor.is_pending or self._locked_out.get(id_) != (
            contributor.producer_id,
            contributor.producer_epoch,
        )
