"""When a partition gives to an epoch, so that small pieces are rolled into larger ones before anybody sees them.

Nothing is put together behind readers' backs: who lists a directory would find rows twice, or not at all. What is too
little waits in Kafka instead. Asks nobody; time comes from outside.
"""

from collections.abc import Mapping
from typing import NamedTuple

from fencepost.record import TopicPartition


class _Seen(NamedTuple):
    """Records below `end` are known to wait since `since_s`."""

    end: int
    since_s: float


class Ripeness:
    """Which partitions have enough new records, or records that have waited for long enough."""

    def __init__(self, rows_min: int, wait_s: float) -> None:
        self._rows_min = rows_min
        self._wait_s = wait_s
        self._first: dict[TopicPartition, _Seen] = {}

    def ripe(
        self, offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], now_s: float
    ) -> dict[TopicPartition, int]:
        """Return how many records are new, of partitions that give to an epoch now: first what has waited longest.

        `offsets`: where the group stands; `ends`: where the logs end.
        """
        new = {place: ends[place] - offset for place, offset in offsets.items() if ends[place] > offset}
        kept = {p: seen for p, seen in self._first.items() if p in new and seen.end > offsets[p]}
        self._first = {place: kept.get(place) or _Seen(ends[place], now_s) for place in new}
        since = {place: seen.since_s for place, seen in self._first.items()}
        found = [p for p, count in new.items() if count >= self._rows_min or now_s - since[p] >= self._wait_s]
        return {place: new[place] for place in sorted(found, key=lambda place: (since[place], place))}

    def taken(self, ripe: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
        """Return how much an epoch takes of each, so that it is no more than `most`, and no piece becomes too small.

        Those that come first are preferred where not all of them can give enough. Without a least number: all there is.
        """
        if self._rows_min <= 1:
            return dict(ripe)
        taken, left = {}, most
        chosen = sorted(list(ripe)[: max(1, most // self._rows_min)], key=lambda place: ripe[place])
        for number, place in enumerate(chosen):  # who has less than an even share leaves the rest to others
            taken[place] = min(ripe[place], left // (len(chosen) - number))
            left -= taken[place]
        return taken
