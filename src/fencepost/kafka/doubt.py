"""Deciding that offsets are lost: not by one answer.

Where a log begins and ends is what its leader answers to ListOffsets: a new leader whose high watermark has not caught
up with what its predecessor had committed answers OFFSET_NOT_AVAILABLE, which `Admin` waits out. What a fetch reports
is no evidence. A broker that was deposed a moment ago, and has not heard of it, answers for the log as it knows it, so
an end that comes too early counts only if it is still there a while later.
"""

from collections.abc import Collection
from typing import Generic, TypeVar

K = TypeVar("K")

SURE_S = 10.0
"""How long a log has to seem too short before what is missing counts as lost."""
APART_S = 30.0
"""How long nobody may look at a log that still counts as too short all the time, where only what seems so is seen."""


class Doubts(Generic[K]):
    """Remembers since when something has seemed to be lost."""

    def __init__(self, most_apart_s: float = float("inf")) -> None:
        """`most_apart_s`: a look so long after the one before says nothing of the time between."""
        self._most_apart_s = most_apart_s
        self._since_s: dict[K, float] = {}
        self._seen_s: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._since_s)

    def confirmed(self, looked_at: Collection[K], seeming: Collection[K], now_s: float, sure_s: float) -> set[K]:
        """Return those of `seeming`, out of all that were `looked_at`, that have seemed lost for `sure_s` by now.

        One look at which a thing was there clears it.
        """
        self.forget({key for key in looked_at if key not in seeming})
        self.forget({key for key in seeming if now_s - self._seen_s.get(key, now_s) > self._most_apart_s})
        self._seen_s |= dict.fromkeys(seeming, now_s)
        return {key for key in seeming if now_s - self._since_s.setdefault(key, now_s) >= sure_s}

    def forget(self, keys: Collection[K]) -> None:
        """Forget about these: nobody asks for them any more, or they have been given up."""
        for key in keys:
            self._since_s.pop(key, None)
            self._seen_s.pop(key, None)
