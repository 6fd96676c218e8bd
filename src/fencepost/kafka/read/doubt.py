"""Deciding that offsets are lost: not by one answer.

Where a log begins and ends is what its leader answers to ListOffsets: a new leader whose high watermark has not caught
up with what its predecessor had committed answers OFFSET_NOT_AVAILABLE, which `Admin` waits out. What a fetch reports
is no evidence. A broker that was deposed a moment ago, and has not heard of it, answers for the log as it knows it, so
an end that comes too early counts only if it is still there a while later.
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")

SURE_S = 10.0
"""How long a log has to seem too short before what is missing counts as lost."""
_LOOKS = 4
_LOOK_EVERY_S = 1.0


class Doubts(Generic[K]):
    """Remembers for how long something has seemed to be lost, by looks at it.

    The time between two looks counts, but no more of it than a quarter of what is needed: with looks that are far
    apart, as those of a mirror on a slow link are, what is missing is confirmed by the fifth of them. Were all of it to
    count, two wrong answers would do that are hours apart.
    """

    def __init__(self) -> None:
        self._doubted_s: dict[K, float] = {}
        self._seen_s: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._seen_s)

    def confirmed(self, looked_at: Collection[K], seeming: Collection[K], now_s: float, sure_s: float) -> set[K]:
        """Return those of `seeming`, out of all that were `looked_at`, that have seemed lost for `sure_s` by now.

        One look at which a thing was there clears it.
        """
        self.forget({key for key in looked_at if key not in seeming})
        for key in seeming:
            passed_s = now_s - self._seen_s.get(key, now_s)
            self._doubted_s[key] = self._doubted_s.get(key, 0.0) + min(passed_s, sure_s / _LOOKS)
        self._seen_s |= dict.fromkeys(seeming, now_s)
        return {key for key in seeming if self._doubted_s[key] >= sure_s}

    def forget(self, keys: Collection[K]) -> None:
        """Forget about these: nobody asks for them any more, or they have been given up."""
        for key in keys:
            self._doubted_s.pop(key, None)
            self._seen_s.pop(key, None)


def sure_ends(
    ask: Callable[[Collection[K]], Mapping[K, int]], wanted: Mapping[K, int], sure_s: float = SURE_S
) -> dict[K, int]:
    """Return where logs end by what `ask` says; where one ends before what is `wanted`, it has said so for `sure_s`."""
    ends, doubts = dict(ask(wanted.keys())), Doubts[K]()
    short = {key for key, at in wanted.items() if ends[key] < at}
    while short := short - doubts.confirmed(short, short, time.monotonic(), sure_s):
        time.sleep(min(_LOOK_EVERY_S, sure_s / _LOOKS))
        ends |= ask(short)
        short = {key for key in short if ends[key] < wanted[key]}
    return ends
