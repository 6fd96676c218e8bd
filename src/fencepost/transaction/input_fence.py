"""Fences producers with an open transaction over the input that a task is about to start from (KIP-447, E20).

Such a transaction may still commit, and so change the offsets that the task would start from. Its producer is fenced at
once, as its own successor would fence it; otherwise the task would wait for the transaction time-out. Only the owner of
a partition in the current group generation fences, so that two tasks never fence each other: one of them is stale.

A producer is found by the log of the group's offsets, or by their metadata: `Signature` lets it name their producer.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from fencepost.kafka.errors import ASK_S
from fencepost.kafka.group.contributors import Contributor, Contributors
from fencepost.kafka.group.group_offsets import Contribution
from fencepost.kafka.value.position import GroupOffset
from fencepost.record import TopicPartition, place_names
from fencepost.transaction.errors import StaleMemberError, WriterFencedError
from fencepost.transaction.lane import fence, ids_of_task
from fencepost.transaction.writer import TransactionalWriter

log = logging.getLogger(__name__)


Places = Collection[TopicPartition]
IsCurrent = Callable[[], bool]

_ONGOING = "Ongoing"


class Fenced(NamedTuple):
    """A producer that was fenced, and the partitions for which it was."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    places: frozenset[TopicPartition]

    def __str__(self) -> str:
        return (
            f"{self.transactional_id} (producer {self.producer_id}, epoch {self.producer_epoch}), whose transaction "
            f"had, or may have had, offsets of {place_names(self.places)}"
        )


class InputFence:
    """Fences producers by the input whose offsets they contribute. Connects at the first use; for one thread.

    It needs Write on the transactional ids that it fences, and the permissions that `Contributors` needs.
    """

    def __init__(self, conf: Mapping[str, Any], *, timeout_s: float = ASK_S, foreign: Collection[str] = ()) -> None:
        """`conf` is a producer's, with librdkafka's names. `foreign` is as in `Contributors`."""
        self._conf = dict(conf)
        self._timeout_s = timeout_s
        self.contributors = Contributors(conf, timeout_s=timeout_s, foreign=foreign)
        self._locked_out: dict[str | None, tuple[int, int]] = {}  # the epoch that our fencing left, by id

    def close(self) -> None:
        """Let go of the connections. Idempotent."""
        self.contributors.close()

    def clear(
        self, group: str, places: Places, own_ids: Collection[str] = (), *, is_current: IsCurrent = lambda: True
    ) -> list[Fenced]:
        """Fence the producers with offsets of these partitions in an open transaction, and return them when fenced.

        A producer whose commit is already decided is not fenced: its offsets become visible in a moment, and it may be
        a healthy member that has released these partitions and continues with others.

        `own_ids` are the caller's transactional ids; taking them has fenced its older incarnations. `is_current` is
        called right before anything is fenced.

        Raises StaleMemberError, and fences nothing, if `is_current` returns False: the caller has a successor. Raises
        WriterOpenError if an id cannot be taken, and what `Contributors` raises.
        """
        return self._fence_others(group, places, self.contributors.undecided(group, places), own_ids, is_current)

    def clear_holders(
        self, group: str, places: Places, own_ids: Collection[str] = (), *, is_current: IsCurrent = lambda: True
    ) -> list[Fenced]:
        """Fence the producers that each serve one of these partitions alone, with or without an open transaction.

        They are not members of the group, so only taking their id stops them. An id that this object has fenced before,
        and that has not been taken since, is not fenced again. Raises what `clear` raises.
        """
        found = self.contributors.holders(group, places)
        loose = [each for each in found if self._locked_out.get(each.transactional_id) != _incarnation(each)]
        return self._fence_others(group, places, loose, own_ids, is_current)

    def clear_named(
        self,
        group: str,
        contributors: Mapping[TopicPartition, Contribution],
        own_ids: Collection[str] = (),
        *,
        is_current: IsCurrent = lambda: True,
    ) -> list[Fenced]:
        """Do what `clear` does for producers that the metadata of offsets names, if the log itself may not be read.

        `contributors` are the last ones of partitions whose offsets are pending now. Raises the errors of `clear`.
        """
        places: dict[str, set[TopicPartition]] = {}
        for place, contribution in contributors.items():
            for id_ in ids_of_task(contribution.transactional_id):
                places.setdefault(id_, set()).add(place)
        known = self.contributors.described(places.keys() - set(own_ids)).values()
        due = [
            Contributor(
                t.producer_id, t.producer_epoch, dict.fromkeys(places[t.transactional_id], -1), t.transactional_id
            )
            for t in known
            if t.state == _ONGOING
        ]
        return self._fence_others(group, contributors.keys(), due, (), is_current)

    def fence(self, contributors: Collection[Contributor]) -> list[Fenced]:
        """Fence these producers, whatever their state, and end their transactions. Skips those without a known id.

        Returns once none of their offsets is pending. Raises what `clear` raises.
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
            raise StaleMemberError(f"no longer a member of group {group}: nothing is fenced (of {names})")
        return [each._replace(places=each.places & frozenset(places)) for each in self.fence(due)]


def _incarnation(contributor: Contributor) -> tuple[int, int]:
    return contributor.producer_id, contributor.producer_epoch


def _is_named(contributor: Contributor) -> bool:
    if contributor.transactional_id is None:
        log.warning(
            "producer %d has offsets of %s in a transaction, and cannot be fenced: its transactional id is not visible "
            "(the principal may need Describe on it)",
            contributor.producer_id,
            ", ".join(f"{place.topic}-{place.partition}" for place in contributor.offsets),
        )
    return contributor.transactional_id is not None


class Signature:
    """Adds the writer's producer to the metadata of offsets that it is about to commit. For any thread.

    The client does not expose its producer id and epoch, but the coordinator of its id reports them. They do not change
    between `open` and `close` of a writer, so they are requested once.
    """

    def __init__(self, contributors: Contributors) -> None:
        self._contributors = contributors
        self._lock = threading.Lock()
        self._known: WeakKeyDictionary[TransactionalWriter, Contribution] = WeakKeyDictionary()

    def sign(self, writer: TransactionalWriter, offsets: Sequence[GroupOffset]) -> list[GroupOffset]:
        """Return the offsets with metadata that names the writer, in addition to their own metadata.

        Raises WriterFencedError if the coordinator no longer knows the id, and what `Contributors` raises.
        """
        with self._lock:
            by = self._known.get(writer)
            if by is None:
                by = self._known[writer] = self._asked(writer.transactional_id)
        return [offset._replace(metadata=by.to_metadata(offset.metadata)) for offset in offsets]

    def _asked(self, transactional_id: str) -> Contribution:
        try:
            found = self._contributors.described([transactional_id]).get(transactional_id)
        finally:
            self._contributors.close()
        if found is None:
            raise WriterFencedError(f"the coordinator no longer knows transactional id {transactional_id}")
        return Contribution(transactional_id, found.producer_id, found.producer_epoch)
