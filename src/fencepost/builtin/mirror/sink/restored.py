"""What is known of positions that a group has lost: where each partition continues, and how exact that is."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.kafka.value.log_gap import LogPosition
from fencepost.record import TopicPartition, place_names


@dataclass(frozen=True, slots=True)
class Synced:
    """Where a partition continues according to its last offset sync.

    `lag`: 0 if the remote partition has no record after that of the sync, else how many offsets it has there, which
    is the largest possible number of records mirrored since.
    """

    position: LogPosition
    lag: int


@dataclass(frozen=True)
class Restored:
    """Where partitions continue, by the source of that knowledge; nothing is known of those in `unknown`."""

    exact: Mapping[TopicPartition, LogPosition] = field(default_factory=dict)
    synced: Mapping[TopicPartition, Synced] = field(default_factory=dict)
    followed: Mapping[TopicPartition, LogPosition] = field(default_factory=dict)
    unknown: frozenset[TopicPartition] = frozenset()

    def positions(self) -> dict[TopicPartition, LogPosition]:
        """Return where to continue."""
        return {**self.exact, **{place: one.position for place, one in self.synced.items()}, **self.followed}

    def messages(self, group: str) -> Iterator[str]:
        """Yield what the user has to know about each kind; `group` is the one that lost its positions."""
        if self.exact:
            yield f"offset syncs say exactly where to continue, for {place_names(self.exact)}"
        if self.synced:
            counts = ", ".join(f"{_name(place)} (up to {one.lag})" for place, one in sorted(self.synced.items()))
            yield f"offset syncs lag behind the remote topic: RECORDS ARE MIRRORED TWICE, for {counts}"
        if self.followed:
            yield (
                f"group {group} of the source says where to continue, for {place_names(self.followed)}: RECORDS "
                "MIRRORED AFTER ITS LAST COMMIT ARE MIRRORED TWICE"
            )
        if nameless := [place for place, position in self.positions().items() if not position.topic_id]:
            yield (
                f"the topic ids of these positions are unknown, for {place_names(nameless)}: if a topic was deleted "
                "and recreated since, ITS FIRST RECORDS ARE NOT MIRRORED, and no gap is reported"
            )
        if self.unknown:
            yield f"nothing says where to continue, for {place_names(self.unknown)}: they are mirrored from the start"


def restored(
    lost: Collection[TopicPartition],
    synced: Mapping[TopicPartition, Synced],
    followed: Mapping[TopicPartition, LogPosition],
) -> Restored:
    """Decide where to continue: exactly, if the last sync is of the last record.

    Otherwise the later of both positions in the same topic is taken: neither is ever beyond what was mirrored.
    """
    exact = {place: synced[place].position for place in lost if place in synced and not synced[place].lag}
    by_group = {
        place: followed[place]
        for place in lost
        if place in followed and place not in exact and _is_further(followed[place], synced.get(place))
    }
    lagging = {place: synced[place] for place in lost if place in synced and place not in {*exact, *by_group}}
    return Restored(exact, lagging, by_group, frozenset(lost) - {*exact, *by_group, *lagging})


def _is_further(position: LogPosition, synced: Synced | None) -> bool:
    if synced is None:
        return True
    is_same = "" in (position.topic_id, synced.position.topic_id) or position.topic_id == synced.position.topic_id
    return is_same and position.offset > synced.position.offset


def _name(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"
