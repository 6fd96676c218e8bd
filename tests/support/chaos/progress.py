"""Feeds loads, and measures how many of their records have become visible."""

import time
from collections.abc import Hashable, Sequence

from fencepost.testing.reader import CommittedReader
from support.chaos.load import Load
from support.feed import Repeatedly

_FEED_EVERY_S = 0.25  # where each poll is a transaction, each task makes one each time


class Mark:
    """Whether a load has got past a point, and when each of its lines of progress did."""

    def __init__(self, load: Load, reader: CommittedReader) -> None:
        self._load = load
        self._reader = reader
        self._goal: dict[Hashable, int] = {}
        self._reached: dict[Hashable, int] = {}
        self._looked_at = 0
        self._set_at = 0.0
        self.took_s: dict[Hashable, float] = {}

    def __str__(self) -> str:
        return f"wanted {self._goal}, seen {self._reached}"

    def set(self) -> None:
        """Set the mark: records that are made from now on are after it."""
        self._goal = self._load.front
        self._set_at, self.took_s = time.monotonic(), {}

    def is_passed(self) -> bool:
        new = self._reader.seen_of(self._load.topic, self._looked_at)
        for observation in new:
            line, place = self._load.place(observation)
            self._reached[line] = max(place, self._reached.get(line, -1))
        self._looked_at += len(new)
        for line, place in self._goal.items():
            if self._reached.get(line, -1) >= place:
                self.took_s.setdefault(line, time.monotonic() - self._set_at)
        return len(self.took_s) == len(self._goal)


class Feeder(Repeatedly):
    """Feeds all loads at a steady rate, in a thread."""

    def __init__(self, loads: Sequence[Load], records_per_s: int) -> None:
        super().__init__(self._feed, _FEED_EVERY_S)
        self._loads = loads
        self._rate = records_per_s
        self._begun_s: float | None = None
        self._fed = 0

    def finish(self) -> None:
        """Stop, and let each load make what is needed for everything to become visible."""
        self.stop()
        for load in self._loads:
            load.finish()

    def _feed(self) -> None:
        self._begun_s = self._begun_s or time.monotonic() - _FEED_EVERY_S
        due = int((time.monotonic() - self._begun_s) * self._rate) - self._fed
        for load in self._loads:
            load.feed(due)
        self._fed += due
