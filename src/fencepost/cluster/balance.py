"""The leader's decisions about which worker gets what."""

import logging
from collections.abc import Sequence
from typing import Any

from fencepost.cluster.command import Reassign
from fencepost.cluster.lost_tasks import LostTasks
from fencepost.cluster.roster import Roster
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)

_AGAIN_MS = 30_000
_NEVER_MS = 2**63


class Balance:
    """Used by the leader's thread; any thread may read `refusal`.

    A decision takes time that grows with all connectors and tasks. Once it has found nothing to do, or was refused, it
    is made again only if something that it depends on has changed, or the time has come.
    """

    def __init__(self, roster: Roster, lost: LostTasks) -> None:
        self.roster = roster
        self.lost = lost
        self.refusal: str | None = None
        self._basis: tuple[Any, ...] = ()
        self._good_until_ms = 0

    def decide(self, snapshot: ClusterSnapshot, now_ms: int) -> Sequence[Encoded]:
        """Return the records of a new assignment; none if it stays as it is."""
        basis = (
            self.roster.members(snapshot),
            snapshot.assignment,
            snapshot.connectors,
            snapshot.task_counts,
            snapshot.inconsistent,
            snapshot.incarnations,
        )
        if now_ms < self._good_until_ms and _is_same(basis, self._basis):
            return []
        records = Reassign(basis[0], self.lost.delay_ms, now_ms).decide(snapshot)
        self._basis, self._good_until_ms = basis, 0
        if not records:
            waiting = snapshot.assignment.waiting if snapshot.assignment is not None else ()
            self._good_until_ms = min((each.until_ms for each in waiting), default=_NEVER_MS)
            self.accepted()
        return records

    def accepted(self) -> None:
        """Record that the newest decision was written."""
        if self.refusal is not None:
            log.info("leader: the assignment can be written again")
        self.refusal = None

    def refused(self, error: Exception, now_ms: int) -> None:
        """Record that no record can hold the newest decision. It is made again after a change, or after a while."""
        if self.refusal is None:
            log.error("leader: the assignment cannot be written, so that nothing moves: %s", error)
        self.refusal = f"the assignment cannot be written, so that nothing moves: {error}"
        self._good_until_ms = now_ms + _AGAIN_MS


def _is_same(basis: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    """Compare the members. The parts of the snapshot are the same objects until they change."""
    return basis[0] == before[0] and all(a is b for a, b in zip(basis[1:], before[1:], strict=True))
