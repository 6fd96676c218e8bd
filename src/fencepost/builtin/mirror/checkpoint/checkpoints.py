"""Decides which checkpoints to write, from those written before.

Translates a position in a partition of the source to the remote partition, by offset syncs.

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
from collections.abc import Collection, Iterable, Iterator, Mapping

from fencepost.api import ReplicationPolicy
from fencepost.builtin.mirror.formats import Checkpoint, OffsetSync
from fencepost.kafka.group.group_offsets import CommittedOffsets
from fencepost.kafka.value.position import GroupOffset
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


class Checkpoints:
    """The newest checkpoint of each remote partition, for a set of groups."""

    def __init__(self, groups: Collection[str]) -> None:
        self._newest: dict[str, dict[TopicPartition, Checkpoint]] = {group: {} for group in groups}

    def add(self, checkpoint: Checkpoint) -> None:
        """Add a written checkpoint; call it in the order of writing."""
        if checkpoint.group in self._newest:
            self._newest[checkpoint.group][checkpoint.topic_partition] = checkpoint

    def forget(self) -> None:
        """Forget all checkpoints: their topic is gone."""
        for newest in self._newest.values():
            newest.clear()

    def of(self, group: str) -> Collection[Checkpoint]:
        """Return the newest checkpoints of a group."""
        return self._newest[group].values()

    def is_step(self, checkpoint: Checkpoint) -> bool:
        """Say whether a checkpoint is the first, or further than the last one, or of a group that went back."""
        last = self._last(checkpoint)
        return (
            last is None
            or checkpoint.upstream_offset < last.upstream_offset
            or checkpoint.downstream_offset > last.downstream_offset
        )

    def is_less(self, checkpoint: Checkpoint) -> bool:
        """Say whether a checkpoint is lower than the last one although the group did not go back.

        Either less is known than before, and the last one still holds, or the remote topic was replaced.
        """
        last = self._last(checkpoint)
        return (
            last is not None and not self.is_step(checkpoint) and checkpoint.downstream_offset < last.downstream_offset
        )

    def is_due(self, checkpoint: Checkpoint, end: int | None) -> bool:
        """Say whether to write a checkpoint of a partition whose end is `end`; None if the end is unknown.

        True if it is a step, or if the last one cannot hold because it is beyond the end.
        """
        last = self._last(checkpoint)
        if end is None or checkpoint.downstream_offset > end:
            return False
        return self.is_step(checkpoint) or (last is not None and last.downstream_offset > end)

    def _last(self, checkpoint: Checkpoint) -> Checkpoint | None:
        return self._newest[checkpoint.group].get(checkpoint.topic_partition)


def remote_partition(policy: ReplicationPolicy, source: str, target: str, place: TopicPartition) -> TopicPartition:
    """Return the name at the target of a partition of the source; `source` and `target` are aliases.

    A topic that came from the target has its original name there.
    """
    is_from_target = policy.topic_source(place.topic) == target
    topic = policy.original_topic(place.topic) if is_from_target else policy.format_remote_topic(source, place.topic)
    return TopicPartition(topic, place.partition)


def translated(
    group: str,
    committed_offsets: CommittedOffsets,
    translation: Translation,
    remote: Mapping[TopicPartition, TopicPartition],
    begins: Mapping[TopicPartition, int],
) -> list[Checkpoint]:
    """Return checkpoints for a group's offsets in the partitions of `remote`, which maps them to remote partitions.

    An offset before all syncs gets the beginning of the remote partition, from `begins`. Offsets that an open
    transaction may change, or that cannot be translated, get none.
    """
    found = []
    for place, committed in committed_offsets.items():
        if committed is None or place not in remote:
            continue
        downstream = translation.downstream(place, committed.offset)
        if downstream is None and translation.is_before(place, committed.offset):
            downstream = begins.get(remote[place])
        if downstream is not None:
            found.append(Checkpoint(group, remote[place], committed.offset, downstream, committed.metadata))
    return found


def steps_of_group(checkpoints: Iterable[Checkpoint], committed_offsets: CommittedOffsets) -> list[GroupOffset]:
    """Return what to commit at the target for a group without members there: never less than its current offsets.

    Offsets that an open transaction may change are left alone.
    """
    steps = []
    for checkpoint in checkpoints:
        place, to = checkpoint.topic_partition, checkpoint.downstream_offset
        at = committed_offsets.get(place)
        if place not in committed_offsets or (at is not None and at.offset < to):
            steps.append(GroupOffset(place.topic, place.partition, to, checkpoint.metadata))
    return steps


def is_within(step: GroupOffset, ends: Mapping[TopicPartition, int]) -> bool:
    """Say whether an offset is known not to be beyond the end of its partition."""
    return step.offset <= ends.get(TopicPartition(step.topic, step.partition), -1)
