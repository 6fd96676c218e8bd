"""Decisions of a mirror, as pure functions: which topics, their remote names, and which task copies what."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.api import ReplicationPolicy
from fencepost.config.closed_topics import ALL_OPEN, ClosedTopics
from fencepost.record import TopicPartition


@dataclass(frozen=True)
class Selection:
    """Which topics of the source are mirrored, and their names at the target.

    `takes` is the user's filter of names. Topics of mirroring itself, and those that came from the target, are never
    mirrored. With `with_heartbeats` topics of heartbeats are mirrored even if the filter excludes them. The last two
    fields are what is closed to connectors at each end.
    """

    policy: ReplicationPolicy
    source_alias: str
    target_alias: str
    takes: Callable[[str], bool]
    with_heartbeats: bool = True
    closed_at_source: ClosedTopics = ALL_OPEN
    closed_at_target: ClosedTopics = ALL_OPEN

    def remote_topic(self, topic: str) -> str:
        """Return the name at the target of a topic of the source."""
        return self.policy.format_remote_topic(self.source_alias, topic)

    def is_closed(self, topic: str) -> bool:
        """Say whether a topic may not be read at the source, or its remote topic may not be changed at the target."""
        return self.closed_at_source.has(topic) or self.closed_at_target.has(self.remote_topic(topic))

    def chosen(self, topics: Iterable[str]) -> list[str]:
        """Return, in order, those of the source's topics that are mirrored."""
        return sorted(topic for topic in topics if self.is_chosen(topic))

    def is_chosen(self, topic: str) -> bool:
        if self.policy.is_internal_topic(topic) or self._is_cycle(topic):
            return False
        return self.takes(topic) or (self.with_heartbeats and self.policy.is_heartbeats_topic(topic))

    def _is_cycle(self, topic: str) -> bool:
        """Say whether a topic came from the target, through any number of clusters."""
        source = self.policy.topic_source(topic)
        if source is None:
            return False
        upstream = self.policy.upstream_topic(topic)
        return source == self.target_alias or (upstream not in (None, topic) and self._is_cycle(str(upstream)))


def shared_names(topics: Iterable[str], selection: Selection) -> dict[str, list[str]]:
    """Return remote topics that several topics would be mirrored into, which would mix their records."""
    sources: dict[str, list[str]] = {}
    for topic in sorted(topics):
        sources.setdefault(selection.remote_topic(topic), []).append(topic)
    return {remote: found for remote, found in sources.items() if len(found) > 1}


@dataclass(frozen=True)
class Shortage:
    """What the target lacks, by topic of the source: total numbers of partitions."""

    missing: Mapping[str, int] = field(default_factory=dict)
    too_small: Mapping[str, int] = field(default_factory=dict)


def shortage(source: Mapping[str, int], target: Mapping[str, int], selection: Selection) -> Shortage:
    """Compare numbers of partitions, given by topic of the source and by topic of the target."""
    have = {topic: target.get(selection.remote_topic(topic)) for topic in source}
    return Shortage(
        {topic: count for topic, count in source.items() if have[topic] is None},
        {topic: count for topic, count in source.items() if 0 < (have[topic] or 0) < count},
    )


def partitions_to_copy(
    source: Mapping[str, int], target: Mapping[str, int], selection: Selection
) -> list[TopicPartition]:
    """Return, in order, the partitions of the source that exist at the target, too."""
    return [
        TopicPartition(topic, number)
        for topic, count in sorted(source.items())
        for number in range(min(count, target.get(selection.remote_topic(topic), 0)))
    ]


def divided(partitions: Sequence[TopicPartition], most_tasks: int) -> list[list[TopicPartition]]:
    """Deal partitions in turn to at most `most_tasks` tasks; no task is empty."""
    count = min(most_tasks, len(partitions))
    return [list(partitions[number::count]) for number in range(count)]


def as_text(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions in the format of a task's property: `a-0,a-1`."""
    return ",".join(f"{topic}-{partition}" for topic, partition in partitions)


def from_text(names: Iterable[str]) -> list[TopicPartition]:
    """Parse the parts of `as_text` between commas. Raises ValueError for anything that is not a partition."""
    parted = (name.strip().rpartition("-") for name in names)
    return [TopicPartition(topic, int(number)) for topic, _, number in parted]
