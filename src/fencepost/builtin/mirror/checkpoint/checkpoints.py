"""Decides which checkpoints to write, from those written before."""

from collections.abc import Collection, Iterable, Mapping

from fencepost.api import ReplicationPolicy
from fencepost.builtin.mirror.checkpoint.translation import Translation
from fencepost.builtin.mirror.formats import Checkpoint
from fencepost.kafka.group.committed_offsets import CommittedOffsets
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.record import TopicPartition


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
