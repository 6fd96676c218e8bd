"""What is to be written of the positions of groups, decided from what was written before."""

from collections.abc import Collection, Iterable, Mapping

from fencepost.api import ReplicationPolicy
from fencepost.kafka.group.group_survey import Standing
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.mirror.formats import Checkpoint
from fencepost.mirror.translation import Translation
from fencepost.record import TopicPartition


class Checkpoints:
    """The newest checkpoint of each group and remote partition, of the groups that it is about."""

    def __init__(self, groups: Collection[str]) -> None:
        self._newest: dict[str, dict[TopicPartition, Checkpoint]] = {group: {} for group in groups}

    def note(self, checkpoint: Checkpoint) -> None:
        """Take note of what was written, in its order."""
        if checkpoint.group in self._newest:
            self._newest[checkpoint.group][checkpoint.topic_partition] = checkpoint

    def forget(self) -> None:
        """Forget what was written: it is not there any more."""
        for newest in self._newest.values():
            newest.clear()

    def of(self, group: str) -> Collection[Checkpoint]:
        """Return the newest of a group."""
        return self._newest[group].values()

    def is_step(self, checkpoint: Checkpoint) -> bool:
        """Say whether a checkpoint is the first, or further than the last one, or of a group that was sent back."""
        last = self._last(checkpoint)
        return (
            last is None
            or checkpoint.upstream_offset < last.upstream_offset
            or checkpoint.downstream_offset > last.downstream_offset
        )

    def is_less(self, checkpoint: Checkpoint) -> bool:
        """Say whether a group that was not sent back is translated to less than before.

        Either less is known than before, and what was written still holds, or the remote topic is another one.
        """
        last = self._last(checkpoint)
        return (
            last is not None and not self.is_step(checkpoint) and checkpoint.downstream_offset < last.downstream_offset
        )

    def is_due(self, checkpoint: Checkpoint, end: int | None) -> bool:
        """Say whether a checkpoint is to be written, of a partition that ends there; None: that is not known.

        It is where it is a step, or where what was written last cannot hold: it lies beyond the end.
        """
        last = self._last(checkpoint)
        if end is None or checkpoint.downstream_offset > end:
            return False
        return self.is_step(checkpoint) or (last is not None and last.downstream_offset > end)

    def _last(self, checkpoint: Checkpoint) -> Checkpoint | None:
        return self._newest[checkpoint.group].get(checkpoint.topic_partition)


def remote_partition(policy: ReplicationPolicy, source: str, target: str, place: TopicPartition) -> TopicPartition:
    """Return what a partition of the source is called at the target; `source` and `target` are aliases.

    A topic that came from the target is there under its own name.
    """
    is_from_target = policy.topic_source(place.topic) == target
    topic = policy.original_topic(place.topic) if is_from_target else policy.format_remote_topic(source, place.topic)
    return TopicPartition(topic, place.partition)


def translated(
    group: str, standing: Standing, translation: Translation, remote: Mapping[TopicPartition, TopicPartition]
) -> list[Checkpoint]:
    """Return checkpoints for where a group stands, of the partitions in `remote`, which says what they are called.

    Where a transaction is about to change that, or where nothing is known of a position, there is none.
    """
    found = []
    for place, committed in standing.items():
        if committed is None or place not in remote:
            continue
        downstream = translation.downstream(place, committed.offset)
        if downstream is not None:
            found.append(Checkpoint(group, remote[place], committed.offset, downstream, committed.note))
    return found


def steps_of_group(checkpoints: Iterable[Checkpoint], standing: Standing) -> list[GroupOffset]:
    """Return what a group without members is to commit at the target, where it stands so far: never less than that.

    What a transaction is about to change is left alone.
    """
    steps = []
    for checkpoint in checkpoints:
        place, to = checkpoint.topic_partition, checkpoint.downstream_offset
        at = standing.get(place)
        if place not in standing or (at is not None and at.offset < to):
            steps.append(GroupOffset(place.topic, place.partition, to, checkpoint.metadata))
    return steps


def is_within(step: GroupOffset, ends: Mapping[TopicPartition, int]) -> bool:
    """Say whether an offset is certainly not beyond the end of its partition."""
    return step.offset <= ends.get(TopicPartition(step.topic, step.partition), -1)
