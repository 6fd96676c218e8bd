"""Python's garbage collector in a slot: by the clock, rather than by the number of new objects.

Python looks for cycles whenever there are 700 objects more than at its last look. A batch makes three for each record,
which are in no cycle and go when nobody has them any more: for a stream with polls of 20,000 records of 100 bytes these
looks were a fourth of its processor time, with polls of 500 a hundredth.

Higher thresholds alone would not do. Python counts the objects that have come less those that have gone, so that the
first one may not be reached for days and the third, which old objects wait for, never; and a cycle of few objects may
hold a client with its threads and connections, or megabytes of bytes, which nobody counts. Therefore:

- what is there when the slot begins, imported modules above all, is not looked at again;
- Python looks by itself where 200,000 objects have come to stay, which bounds what cycles that come quickly take;
- every ten seconds all that is left is collected, of any age, and what is free goes back to the system.
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fencepost.task.memory import give_back

_YOUNG, _MIDDLE, _OLD = 200_000, 50, 1_000
_EVERY_S = 10.0
_LARGEST_SHARE = 0.005


class Garbage:
    """Collects cycles now and then, and gives free memory back. One thread's."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due_s = clock() + _EVERY_S

    def collect_if_due(self) -> None:
        """Collect, not more often than each ten seconds; where much is alive, so rarely that it takes little time."""
        begun_s = self._clock()
        if begun_s < self._due_s:
            return
        gc.collect()
        give_back()
        ended_s = self._clock()
        self._due_s = ended_s + max(_EVERY_S, (ended_s - begun_s) / _LARGEST_SHARE)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Leave what has been imported alone, and collect by itself only where very many objects have come to stay.

    Whoever enters has `Garbage` collect the rest. On leaving all is as before: Spark uses its processes again.
    """
    before = gc.get_threshold()
    gc.collect()  # what is frozen is never collected
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
