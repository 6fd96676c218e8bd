"""Translates a position in a partition of the source to the remote partition, by offset syncs.

A sync (u, d) says that the record at offset u of the source was copied to offset d of the target. Records before u are
before d, and records after u are after d. In between, records may be missing (compacted, aborted, filtered), and the
target has its own markers, so nothing more is certain. For a position p, before which everything is done, the largest
position of the target that is certainly not beyond follows from the last sync with u <= p:

- p = u: d, as the record at u is the next one;
- p > u: d + 1, as the record at u is done.

With a sync for the last record of each transaction, the translation is exact at every transaction boundary, where p is
u + 1 or in a gap after it, and nothing is read twice. Elsewhere it is off by the distance between two syncs. Kafka's
own readers translate in the same way. Before all syncs, only the beginning of the target's log is certainly not beyond.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from fencepost.builtin.mirror.formats import OffsetSync
from fencepost.record import TopicPartition

MOST_SYNCS = 2_000_000
"""How many syncs are kept by default; each takes 16 bytes."""

_FEWEST = 16  # syncs that a partition always keeps


class Translation:
    """Keeps the syncs of a flow, and translates positions with them. Not thread-safe.

    It is monotone: a later position is never translated to an earlier one, unless the mirror itself went back. Memory
    is bounded: if there are more syncs than `most`, every other one of the older half is dropped from the partition
    with the most. Old positions then translate less exactly, but never wrongly.
    """

    def __init__(self, most: int = MOST_SYNCS) -> None:
        self._most = most
        self._count = 0
        self._lines: dict[TopicPartition, _Line] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, sync: OffsetSync) -> None:
        """Add a sync; call it in the order of their topic."""
        line = self._lines.setdefault(sync.topic_partition, _Line())
        self._count += line.add(sync.upstream_offset, sync.downstream_offset)
        if self._count > self._most:
            self._count -= max(self._lines.values(), key=len).thin()

    def downstream(self, topic_partition: TopicPartition, upstream_offset: int) -> int | None:
        """Return the translated position; None if it is before all syncs."""
        line = self._lines.get(topic_partition)
        return None if line is None else line.downstream(upstream_offset)

    def is_before(self, topic_partition: TopicPartition, upstream_offset: int) -> bool:
        """Return whether a position is before all syncs of a partition that has some."""
        return topic_partition in self._lines and self.downstream(topic_partition, upstream_offset) is None

    def syncs(self, topic_partition: TopicPartition) -> Iterator[OffsetSync]:
        """Yield the syncs that are kept of a partition, the oldest first, without headers."""
        line = self._lines.get(topic_partition)
        for upstream, downstream in line.pairs() if line is not None else ():
            yield OffsetSync(topic_partition, upstream, downstream)


class _Line:
    """The syncs of a partition: target offsets increase from one to the next, source offsets never decrease."""

    def __init__(self) -> None:
        self._upstream = array("q")
        self._downstream = array("q")

    def __len__(self) -> int:
        return len(self._upstream)

    def add(self, upstream: int, downstream: int) -> int:
        """Add a sync, and return by how many the number of syncs grows.

        A sync that goes back means that the source or the target was recreated, or the mirror was reset: earlier syncs
        may
        not hold any more. If the same record is copied again, its last copy counts.
        """
        before = len(self)
        last = (self._upstream[-1], self._downstream[-1]) if before else (-1, -1)
        if (upstream, downstream) == last:
            return 0
        if upstream < last[0] or downstream <= last[1]:
            del self._upstream[:], self._downstream[:]
        self._upstream.append(upstream)
        self._downstream.append(downstream)
        return len(self) - before

    def thin(self) -> int:
        """Drop every other sync of the older half, and return how many were dropped."""
        before, half = len(self), len(self) // 2
        if before > _FEWEST:
            del self._upstream[1:half:2], self._downstream[1:half:2]
        return before - len(self)

    def pairs(self) -> Iterator[tuple[int, int]]:
        return zip(self._upstream, self._downstream, strict=True)

    def downstream(self, upstream: int) -> int | None:
        index = bisect_right(self._upstream, upstream) - 1
        if index < 0:
            return None
        return self._downstream[index] + (upstream > self._upstream[index])
