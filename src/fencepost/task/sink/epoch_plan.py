"""Which records make up an epoch, and how that is kept with the group's offsets. Asks nobody.

A plan is durable before its first write: with each offset of the group stands a note that says up to where the epoch
goes that begins there. All notes of an epoch are committed together, and the coordinator takes them from a member of
the newest generation only, so that whoever takes over finds the same ranges, and nobody else can plan others (E16).
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fencepost.api import Epoch, OffsetRange
from fencepost.kafka.value.log_range import shares
from fencepost.record import TopicPartition

NOTE_MAX_BYTES = 4_000
"""How long a note may be: a broker takes 4,096 bytes with an offset (offset.metadata.max.bytes)."""

NOTES_MAX_BYTES = 400_000
"""How much of notes goes into one commit: it is one batch of the group's log, and a broker takes 1 MiB at most
(message.max.bytes)."""
NOTE_BYTES = 300  # of the group's log, besides the topic: the group, the note with a short token, and what frames them
_ROOM_BYTES = 64


@dataclass(frozen=True)
class Note:
    """What stands with an offset: the newest epoch, and, until that is committed, what is to be known of it.

    `epoch` tells it from others of its number, `start` and `end` are its range there: a note whose offset was moved
    says nothing.
    """

    number: int = 0
    epoch: str | None = None
    start: int | None = None
    end: int | None = None
    token: str | None = None

    def to_text(self) -> str:
        fields: dict[str, object] = {k: v for k, v in vars(self).items() if v is not None}
        if self.end is not None and self.token is None:
            fields["room"] = "." * (_ROOM_BYTES + 1)  # and the longer name of the other
        return json.dumps(fields, separators=(",", ":"))

    @classmethod
    def of_text(cls, text: str) -> "Note":
        """Read what was committed. What others have committed there says nothing."""
        try:
            found = json.loads(text)
            note = cls(int(found["number"]), *(found.get(key) for key in ("epoch", "start", "end", "token")))
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()
        numbers, texts = (note.start, note.end), (note.epoch, note.token)
        is_ours = all(isinstance(n, int | None) for n in numbers) and all(isinstance(t, str | None) for t in texts)
        return note if is_ours else cls()


@dataclass(frozen=True)
class Standing:
    """Where the group stands in a partition."""

    offset: int
    note: Note = Note()

    @property
    def is_open(self) -> bool:
        """Say whether an epoch was begun there that has not ended."""
        return self.note.end is not None and self.note.start == self.offset < self.note.end


Standings = Mapping[TopicPartition, Standing]


@dataclass(frozen=True)
class Begun:
    """An epoch whose plan is durable; its token, too, once what was written for it is to be published."""

    epoch: Epoch
    token: str | None = None

    def with_number(self, number: int) -> "Begun":
        return replace(self, epoch=replace(self.epoch, number=number))

    def with_token(self, token: str) -> "Begun":
        return replace(self, token=token)

    def standings(self) -> dict[TopicPartition, Standing]:
        """Return what is committed of it while it is under way."""
        epoch = self.epoch
        notes = {each.place: Note(epoch.number, epoch.id, each.start, each.end, self.token) for each in epoch.ranges}
        return {each.place: Standing(each.start, notes[each.place]) for each in epoch.ranges}

    def ended(self) -> dict[TopicPartition, Standing]:
        """Return what is committed at its end."""
        return {each.place: Standing(each.end, Note(self.epoch.number)) for each in self.epoch.ranges}


def begun(standings: Standings) -> Begun | None:
    """Return the oldest epoch that was begun and has not ended; None: there is none."""
    return next(iter(all_begun(standings)), None)


def all_begun(standings: Standings) -> list[Begun]:
    """Return the epochs that were begun and have not ended, the oldest first.

    Where partitions were taken out of one, it has the others alone. Its token is theirs as well: what is shown already
    is not written again.
    """
    open_: dict[tuple[int, str], dict[TopicPartition, Standing]] = {}
    for place, standing in standings.items():
        if standing.is_open:
            open_.setdefault((standing.note.number, standing.note.epoch or ""), {})[place] = standing
    return [_begun(*key, own) for key, own in sorted(open_.items())]


def _begun(number: int, id_: str, own: Standings) -> Begun:
    ranges = sorted(OffsetRange(*place, s.offset, s.note.end or 0) for place, s in own.items())
    return Begun(Epoch(number, tuple(ranges), id_), next(iter(own.values())).note.token)


def has_room(token: str) -> bool:
    """Say whether a note has room for a token from the start: its commit is no larger than that of the plan."""
    return len(json.dumps(token)) - len('""') <= _ROOM_BYTES


def decided(standings: Standings) -> dict[TopicPartition, Standing]:
    """Return those of which an open epoch is only to be published still."""
    return {place: s for place, s in standings.items() if s.is_open and s.note.token is not None}


def tokens(standings: Standings) -> set[str]:
    """Return the tokens of all epochs that are to be published still."""
    return {s.note.token for s in decided(standings).values() if s.note.token is not None}


def newest(standings: Standings) -> int:
    """Return the number of the newest epoch."""
    return max((s.note.number for s in standings.values()), default=0)


def planned(
    standings: Standings,
    ends: Mapping[TopicPartition, int],
    rows_max: int,
    known: int = 0,
    notes_max_bytes: int | None = None,
) -> Begun | None:
    """Return the next epoch: from where the group stands up to these ends, or less; None: there is nothing new.

    Where there are more than `rows_max` records, by their offsets, each partition gives the same share of its own.
    Where there are too many partitions for one commit of their notes, the oldest last epoch comes first. The
    number is above `known`, and above all of the group's.
    """
    new = {place: ends[place] - s.offset for place, s in standings.items() if ends.get(place, 0) > s.offset}
    if notes_max_bytes is not None:
        new = _fitting(new, standings, notes_max_bytes)
    if not new:
        return None
    taken = shares(new, rows_max)
    ranges = sorted(
        OffsetRange(*place, standings[place].offset, standings[place].offset + count) for place, count in taken.items()
    )
    return Begun(Epoch(1 + max(known, newest(standings)), tuple(ranges), uuid.uuid4().hex[:8]))


def halved(epoch: Begun) -> dict[TopicPartition, Standing]:
    """Return what is committed to leave half of the ranges out of an epoch that is not decided."""
    left_out = epoch.epoch.ranges[len(epoch.epoch.ranges) // 2 :]
    return {each.place: Standing(each.start, Note(epoch.epoch.number)) for each in left_out}


def _fitting(new: Mapping[TopicPartition, int], standings: Standings, max_bytes: int) -> dict[TopicPartition, int]:
    kept: dict[TopicPartition, int] = {}
    for place in sorted(new, key=lambda place: (standings[place].note.number, -new[place], place)):
        max_bytes -= NOTE_BYTES + len(place.topic)
        if kept and max_bytes < 0:
            break
        kept[place] = new[place]
    return kept
