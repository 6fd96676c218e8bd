"""Up to where a table is complete: no row will ever appear there that is not visible now.

Ids and timestamps are taken before a transaction commits, so rows become visible in another order than theirs. A place
that was the newest one at some moment is complete once all transactions of that moment have ended: later ones take
larger ids and timestamps. Where a database does not show its transactions, time takes their place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class _Ordered(Protocol):
    def __gt__(self, other: "_Ordered", /) -> bool: ...


NewestT = TypeVar("NewestT", bound=_Ordered)
_MOST = 100


@dataclass(frozen=True)
class _Sighting(Generic[NewestT]):
    """`newest` was the newest place at `at_s`; of the transactions of that moment these are still open."""

    newest: NewestT
    at_s: float
    open: frozenset[str]


class Settled(Generic[NewestT]):
    """What is known of one table. It is forgotten at a restart, which only lets its rows wait again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds that never go back."""
        self._clock = clock
        self._sightings: list[_Sighting[NewestT]] = []
        self._place: NewestT | None = None

    def up_to(self, newest: NewestT, open_now: frozenset[str], delay_s: float) -> NewestT | None:
        """Return the place up to which the table is complete for whoever reads it from now on; None: nothing is.

        `newest` is read before `open_now`, the transactions that are open. They may be unknown, and so empty, if every
        transaction ends within `delay_s` of taking an id.
        """
        now_s = self._clock()
        known = [_Sighting(each.newest, each.at_s, each.open & open_now) for each in self._sightings]
        if len(known) < _MOST and (not known or newest > known[-1].newest):
            known.append(_Sighting(newest, now_s, open_now))
        self._sightings = [each for each in known if each.open or now_s - each.at_s < delay_s]
        for each in known:
            if each not in self._sightings and (self._place is None or each.newest > self._place):
                self._place = each.newest
        return self._place

    def waits_s(self) -> float:
        """Return for how long the oldest place has not been complete."""
        return self._clock() - self._sightings[0].at_s if self._sightings else 0.0
