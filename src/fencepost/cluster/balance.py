"""The leader's decisions about which worker gets what."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from fencepost.cluster.assignment import Member, lost_tasks
from fencepost.cluster.command import Reassign
from fencepost.cluster.left_open import LeftOpen, PendingFences
from fencepost.kafka.group.member import Term
from fencepost.storage.change import TaskId
from fencepost.storage.records import Encoded
from fencepost.storage.snapshot import ClusterSnapshot

log = logging.getLogger(__name__)


class Roster:
    """Used by the leader's thread; any thread may call `forget`."""

    def __init__(self, member_urls: Callable[[], Collection[str]], *, good_for_s: float = 1.0) -> None:
        """Use an answer of `member_urls` for `good_for_s`."""
        self._member_urls = member_urls
        self._good_for_s = good_for_s
        self._urls: frozenset[str] = frozenset()  # empty while they are not known
        self._found: frozenset[str] = frozenset()
        self._looked: tuple[Term | None, float] = (None, 0.0)  # the last look: its term, and its monotonic time

    def forget(self) -> None:
        """Give no work to anybody until the next look that is settled."""
        self._urls = frozenset()

    def look(self, snapshot: ClusterSnapshot, term: Term, *, afresh: bool) -> tuple[Member, ...]:
        """Return the group's members: a recent answer if no term has begun since, else a new one."""
        now_s = time.monotonic()
        looked_in, looked_at_s = self._looked
        if afresh or not self._urls or looked_in is not term or now_s > looked_at_s + self._good_for_s:
            self._found = frozenset(self._member_urls())
            self._looked = term, now_s  # both from before the request: a newer term asks again
        return _members(snapshot, self._found)

    def settle(self) -> None:
        """Give work to the members that were found last."""
        self._urls = self._found

    def members(self, snapshot: ClusterSnapshot) -> tuple[Member, ...]:
        """Return the members that get work."""
        return _members(snapshot, self._urls)


def _members(snapshot: ClusterSnapshot, roster: frozenset[str]) -> tuple[Member, ...]:
    urls = sorted(roster & set(snapshot.incarnations))
    known = ((url, snapshot.incarnations[url], snapshot.abilities[url]) for url in urls)
    return tuple(Member(url, incarnation, can.is_ready, can.reads_placements) for url, incarnation, can in known)


class LostTasks:
    """Used by the leader's thread."""

    def __init__(
        self,
        left_open: LeftOpen,
        abandoned_tasks: Callable[[ClusterSnapshot, Collection[str]], set[TaskId]],
        delay_ms: int = 0,
    ) -> None:
        """`left_open` ends open transactions of a lost worker's tasks before they move, `delay_ms` later unless it
        returns. `abandoned_tasks` returns tasks that it should have ended, and that nobody gets."""
        self._left_open = left_open
        self._abandoned_tasks = abandoned_tasks
        self.delay_ms = delay_ms
        self._ending: PendingFences | None = None  # of lost tasks, until their worker is no longer counted

    def forget(self) -> None:
        """Fence tasks again that are lost, as another worker may have led in between."""
        self._ending = None

    def are_settled(self, snapshot: ClusterSnapshot, members: Collection[Member]) -> bool:
        """Return whether lost tasks may be reassigned: what they had open has been ended, as far as possible."""
        lost = lost_tasks(snapshot, members)
        if not lost:
            self._ending = None
            return True
        if self._ending is None or not self._ending.tasks.issuperset(lost):
            what = f"wait {self.delay_ms / 1000:g} s for it" if self.delay_ms else "move"
            log.warning("leader: tasks of a lost worker are fenced and %s: %s", what, _names(lost))
            self._ending = self._left_open.end(snapshot, lost)
        return self._ending.is_settled

    def end_abandoned(self, snapshot: ClusterSnapshot, members: Collection[Member]) -> None:
        """Begin to end what called-off tasks of dead workers have open; these tasks are assigned to nobody."""
        abandoned = self._abandoned_tasks(snapshot, {m.incarnation for m in members}) if members else set()
        if abandoned:
            log.warning("leader: fencing tasks that lost workers were to end: %s", _names(abandoned))
            self._left_open.end(snapshot, abandoned)


def _names(tasks: Collection[TaskId]) -> str:
    return ", ".join(map(str, sorted(tasks)))


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
