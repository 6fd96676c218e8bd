"""Where a position in a partition of the source lies in the remote partition, by what offset syncs say.

A sync (u, d) says that the record at offset u of the source has gone to offset d of the target. What came before u lies
before d, what came after u lies behind d: in between, records may be missing (compacted, aborted, filtered) and the
target has markers of its own, so that nothing else can be said. For a position p, of which everything before is done,
the largest position of the target that is certainly not beyond follows from the last sync with u <= p:

- p = u: d, the record at u is the next one;
- p > u: d + 1, the record at u is done.

So whoever writes a sync for the last record of each transaction makes the translation exact on every boundary, at which
p is u + 1 or lies in a gap behind; nothing is read twice. Elsewhere it is what lies between two syncs. Kafka's own
readers translate in the same way.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from fencepost.mirror.formats import OffsetSync
from fencepost.record import TopicPartition

MOST_SYNCS = 2_000_000
"""How many syncs are kept by default; of 16 bytes each."""

_FEWEST = 16  # of a partition, which always has room


class Translation:
    """Keeps the syncs of a flow, and translates by them. Not thread-safe.

    It is monotone: a later position is never translated to an earlier one, unless the mirror itself went back. Memory
    is bounded: with more syncs than `most`, of the partition that has most every other one of the older half is let go,
    so that what is old becomes coarser, never wrong.
    """

    def __init__(self, most: int = MOST_SYNCS) -> None:
        self._most = most
        self._count = 0
        self._lines: dict[TopicPartition, _Line] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, sync: OffsetSync) -> None:
        """Take note of a sync; they come in the order of their topic."""
        line = self._lines.setdefault(sync.topic_partition, _Line())
        self._count += line.add(sync.upstream_offset, sync.downstream_offset)
        if self._count > self._most:
            self._count -= max(self._lines.values(), key=len).thin()

    def downstream(self, topic_partition: TopicPartition, upstream_offset: int) -> int | None:
        """Return the translated position; None: it is before all syncs, of which nothing is known."""
        line = self._lines.get(topic_partition)
        return None if line is None else line.downstream(upstream_offset)

    def syncs(self, topic_partition: TopicPartition) -> Iterator[OffsetSync]:
        """Yield the syncs of a partition that are kept, the oldest first, without what their headers said."""
        line = self._lines.get(topic_partition)
        for upstream, downstream in line.pairs() if line is not None else ():
            yield OffsetSync(topic_partition, upstream, downstream)


class _Line:
    """The syncs of a partition: the offsets of the target grow from one to the next, those of the source never fall."""

    def __init__(self) -> None:
        self._upstream = array("q")
        self._downstream = array("q")

    def __len__(self) -> int:
        return len(self._upstream)

    def add(self, upstream: int, downstream: int) -> int:
        """Take a sync, and return by how many there are more.

        One that goes back says that the source or the target was made anew, or that the mirror was sent back: what
        earlier ones say of positions may not hold any more. The same record sent once more counts where it went last.
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
        """Let go of every other sync of the older half, and return of how many."""
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
