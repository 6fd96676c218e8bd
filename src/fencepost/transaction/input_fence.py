"""The conflict of KIP-447: nobody else has a transaction open over the input that a task is about to begin with (E20).

Such a transaction may still commit the offsets that the task would begin at. Its producer is fenced at once, as its
own successor would fence it; waiting would end with the time-out of its transaction. Only the owner of a partition in
the current generation of the group asks, so that two never fence each other in turns: of two that meet, one is stale.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from fencepost.kafka.group.contribution import Contribution
from fencepost.kafka.group.contributors import Contributor, Contributors
from fencepost.record import TopicPartition
from fencepost.transaction.errors import StaleMemberError
from fencepost.transaction.fencing import fence
from fencepost.transaction.lane import ids_beside

log = logging.getLogger(__name__)


Places = Collection[TopicPartition]
IsCurrent = Callable[[], bool]

_ONGOING = "Ongoing"


class Fenced(NamedTuple):
    """A producer that was fenced, and for which partitions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    places: frozenset[TopicPartition]

    def __str__(self) -> str:
        names = ", ".join(f"{place.topic}-{place.partition}" for place in sorted(self.places))
        return (
            f"{self.transactional_id} (producer {self.producer_id}, epoch {self.producer_epoch}), whose transaction "
            f"had, or may have had, offsets of {names}"
        )


class InputFence:
    """Fences producers by the input they contribute offsets of. Connects at the first use; one thread.

    It takes Write on the transactional ids that are fenced, besides what `Contributors` takes.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float = 30.0, foreign: Collection[str] = ()) -> None:
        """`conf` is that of a producer, in librdkafka's names; `foreign` is as in `Contributors`."""
        self._conf = dict(conf)
        self._timeout_s = timeout_s
        self.contributors = Contributors(conf, timeout_s=timeout_s, foreign=foreign)
        self._locked_out: dict[str | None, tuple[int, int]] = {}  # what we have left of an id

    def close(self) -> None:
        """Let go of the connections. Idempotent."""
        self.contributors.close()

    def clear(
        self, group: str, places: Places, own_ids: Collection[str] = (), *, is_current: IsCurrent = lambda: True
    ) -> list[Fenced]:
        """Fence who has offsets of these partitions in an open transaction, and return them: they are gone then.

        Not who has committed already, and given the partitions up: its offsets count in a moment, and it may be a
        healthy member that goes on with others.

        `own_ids` are the asker's, who has fenced older incarnations by taking them. `is_current` is asked right before
        anybody is fenced.

        Raises StaleMemberError where it says no: the asker has a successor, and nobody is fenced; WriterOpenError where
        an id cannot be taken; and what `Contributors` does.
        """
        return self._fence_others(group, places, self.contributors.undecided(group, places), own_ids, is_current)

    def clear_holders(
        self, group: str, places: Places, own_ids: Collection[str] = (), *, is_current: IsCurrent = lambda: True
    ) -> list[Fenced]:
        """Fence the producers that are each for one of these partitions alone, whether they have a transaction or not.

        Nothing but their id keeps them from going on, as no member of the group. One that was locked out here before,
        and that nobody has taken since, is not fenced again. Raises what `clear` does.
        """
        found = self.contributors.holders(group, places)
        loose = [each for each in found if self._locked_out.get(each.transactional_id) != _incarnation(each)]
        return self._fence_others(group, places, loose, own_ids, is_current)

    def clear_noted(
        self,
        group: str,
        noted: Mapping[TopicPartition, Contribution],
        own_ids: Collection[str] = (),
        *,
        is_current: IsCurrent = lambda: True,
    ) -> list[Fenced]:
        """Do what `clear` does, as far as the notes of offsets tell who it is: for who may not read the log itself.

        `noted` names who contributed last to partitions whose offsets are pending now. Raises what `clear` does.
        """
        places: dict[str, set[TopicPartition]] = {}
        for place, contribution in noted.items():
            for id_ in ids_beside(contribution.transactional_id):
                places.setdefault(id_, set()).add(place)
        known = self.contributors.described(places.keys() - set(own_ids)).values()
        due = [
            Contributor(
                t.producer_id, t.producer_epoch, dict.fromkeys(places[t.transactional_id], -1), t.transactional_id
            )
            for t in known
            if t.state == _ONGOING
        ]
        return self._fence_others(group, noted.keys(), due, (), is_current)

    def fence(self, contributors: Collection[Contributor]) -> list[Fenced]:
        """Fence these, whatever they do, and end their transactions; who has no id that is known is left out.

        Returns once all of their offsets are gone. Raises what `clear` does.
        """
        if not contributors:
            return []
        named = {each.transactional_id: each for each in contributors if each.transactional_id is not None}
        fence(named, lambda id_: self._conf, self._timeout_s)
        for id_, transaction in self.contributors.described(named).items():
            self._locked_out[id_] = (transaction.producer_id, transaction.producer_epoch)
        return [
            Fenced(id_, each.producer_id, each.producer_epoch, frozenset(each.offsets)) for id_, each in named.items()
        ]

    def _fence_others(
        self,
        group: str,
        places: Places,
        found: Collection[Contributor],
        own_ids: Collection[str],
        is_current: IsCurrent,
    ) -> list[Fenced]:
        due = [each for each in found if each.transactional_id not in own_ids and _is_named(each)]
        if due and not is_current():
            names = ", ".join(str(each.transactional_id) for each in due)
            raise StaleMemberError(f"this member of group {group} is none any more, and fences nobody (here {names})")
        return [each._replace(places=each.places & frozenset(places)) for each in self.fence(due)]


def _incarnation(contributor: Contributor) -> tuple[int, int]:
    return contributor.producer_id, contributor.producer_epoch


def _is_named(contributor: Contributor) -> bool:
    if contributor.transactional_id is None:
        log.warning(
            "producer %d has offsets of %s in a transaction, and cannot be fenced: no transactional id of it is "
            "told (the principal may need Describe on it)",
            contributor.producer_id,
            ", ".join(f"{place.topic}-{place.partition}" for place in contributor.offsets),
        )
    return contributor.transactional_id is not None
