"""What is known of positions that a group has lost: where each partition goes on, and how exact that is."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.kafka.value.log_gap import LogPosition
from fencepost.record import TopicPartition


@dataclass(frozen=True, slots=True)
class Synced:
    """Where the last offset sync of a partition says to go on.

    `behind`: 0 if the remote partition has no record behind the one that the sync is of, else how many offsets it has
    there: as many records may have been mirrored since.
    """

    position: LogPosition
    behind: int


@dataclass(frozen=True)
class Restored:
    """Where partitions go on, by how that is known; `unknown` are those of which nothing tells."""

    exact: Mapping[TopicPartition, LogPosition] = field(default_factory=dict)
    synced: Mapping[TopicPartition, Synced] = field(default_factory=dict)
    followed: Mapping[TopicPartition, LogPosition] = field(default_factory=dict)
    unknown: frozenset[TopicPartition] = frozenset()

    def positions(self) -> dict[TopicPartition, LogPosition]:
        """Return where to go on."""
        return {**self.exact, **{place: one.position for place, one in self.synced.items()}, **self.followed}

    def sayings(self, group: str) -> Iterator[str]:
        """Yield what the user has to know of each kind; `group` is the one that was lost."""
        if self.exact:
            yield f"offset syncs tell exactly where to go on, of {names(self.exact)}"
        if self.synced:
            counts = ", ".join(f"{_name(place)} (up to {one.behind})" for place, one in sorted(self.synced.items()))
            yield f"offset syncs lag behind the remote topic: RECORDS ARE MIRRORED TWICE, of {counts}"
        if self.followed:
            yield (
                f"group {group} of the source tells where to go on, of {names(self.followed)}: WHAT WAS MIRRORED SINCE "
                "IT COMMITTED THERE IS MIRRORED TWICE"
            )
        if nameless := [place for place, position in self.positions().items() if not position.topic_id]:
            yield (
                f"which topic these are positions of is not known, of {names(nameless)}: if it was deleted and created "
                "again since, ITS FIRST RECORDS ARE NOT MIRRORED, and no gap is reported"
            )
        if self.unknown:
            yield f"nothing tells where to go on, of {names(self.unknown)}: they are mirrored anew"


def restored(
    lost: Collection[TopicPartition],
    synced: Mapping[TopicPartition, Synced],
    followed: Mapping[TopicPartition, LogPosition],
) -> Restored:
    """Decide where to go on: exactly, where the last sync is of the last record.

    Else the further one of both is taken, of the same topic: neither is ever beyond what was mirrored.
    """
    exact = {place: synced[place].position for place in lost if place in synced and not synced[place].behind}
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


def names(places: Collection[TopicPartition]) -> str:
    """Return partitions for a message, in order."""
    return ", ".join(_name(place) for place in sorted(places))


def _name(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"
