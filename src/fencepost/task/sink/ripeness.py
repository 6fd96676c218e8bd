"""When a partition contributes to an epoch, so that small pieces become larger ones before anyone sees them.

Published files are never merged afterwards: a reader that lists a directory would find rows twice, or not at all. Too
few records wait in Kafka instead. Makes no requests; the time is a parameter.
"""

from collections.abc import Mapping
from typing import NamedTuple

from fencepost.record import TopicPartition


class _Seen(NamedTuple):
    """Records below `end` are known to wait since `since_s`."""

    end: int
    since_s: float


class Ripeness:
    """Finds partitions with enough new records, or with records that have waited long enough."""

    def __init__(self, rows_min: int, wait_s: float) -> None:
        self._rows_min = rows_min
        self._wait_s = wait_s
        self._first: dict[TopicPartition, _Seen] = {}

    def ripe(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], now_s: float
    ) -> dict[TopicPartition, int]:
        """Return how many records are new in partitions that contribute to an epoch now; the longest wait comes first.

        `offsets`: the group's committed offsets; `ends`: the ends of the logs.
        """
        new = {place: ends[place] - offset for place, offset in offsets.items() if ends[place] > offset}
        kept = {p: seen for p, seen in self._first.items() if p in new and seen.end > offsets[p]}
        self._first = {place: kept.get(place) or _Seen(ends[place], now_s) for place in new}
        since = {place: seen.since_s for place, seen in self._first.items()}
        found = [p for p, count in new.items() if count >= self._rows_min or now_s - since[p] >= self._wait_s]
        return {place: new[place] for place in sorted(found, key=lambda place: (since[place], place))}

    def taken(self, ripe: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
        """Return how many records an epoch takes from each, `most` in total, without too small a piece.

        If not all of them can contribute enough, the first ones are preferred. Without a minimum everything is taken.
        """
        if self._rows_min <= 1:
            return dict(ripe)
        taken, left = {}, most
        chosen = sorted(list(ripe)[: max(1, most // self._rows_min)], key=lambda place: ripe[place])
        for number, place in enumerate(chosen):  # one with less than an even share leaves the rest to the others
            taken[place] = min(ripe[place], left // (len(chosen) - number))
            left -= taken[place]
        return taken
