"""Which workers get work: the members of the group, as it last answered."""

import time
from collections.abc import Callable, Collection

from fencepost.cluster.assignment import Member
from fencepost.kafka.group.member import Term
from fencepost.storage.snapshot import ClusterSnapshot


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
    """Return the members of a roster that have announced themselves, each as its newest process."""
    urls = sorted(roster & set(snapshot.incarnations))
    known = ((url, snapshot.incarnations[url], snapshot.abilities[url]) for url in urls)
    return tuple(Member(url, incarnation, can.is_ready, can.reads_placements) for url, incarnation, can in known)
