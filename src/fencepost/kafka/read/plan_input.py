"""Reads given partitions, each from a position, without joining a group.

If a log has no records at the position, that is a gap. The partition is then stopped until the caller says where to
continue; nothing is silently skipped or read again.

1. Take records from the client.
2. Request the ids of their topics, because the client would continue in a new topic of the same name at the same
offset.
   An id is never reused, so everything fetched before the request is from the topic with that id. A reader that
   fetches topics by id does not need this: brokers report that the topic no longer exists.
3. Only then return the records.

The positions of a plan's partitions.
"""

import logging
import time
from collections.abc import Collection, Mapping
from typing import Any

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.topics import Topic
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.read.client_reader import ClientReader
from fencepost.kafka.read.plan_reader import PlanReader
from fencepost.kafka.read.plan_topics import PlanLosses, PlanTopics
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.position import NO_EPOCH, GapKind, GroupOffset, LogGap, LogPosition
from fencepost.record import TopicPartition, place_names

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 5.0


class PlanPositions:
    """The positions of partitions that are read: after the returned records, or where they begin."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        """The leader epochs of the records before the positions, if known."""
        self.unreturned: dict[TopicPartition, int] = {}
        """Positions to return with the next records."""
        self.gaps: dict[TopicPartition, LogGap] = {}
        """The partitions that are stopped."""

    def move(self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Store positions, and the leader epochs that are known for exactly these."""
        self.offsets |= offsets
        for place, offset in offsets.items():
            at, epoch = epochs.get(place, (offset, NO_EPOCH))
            self.epochs[place] = epoch if at == offset else NO_EPOCH

    def move_after(self, fetched: Fetched) -> dict[TopicPartition, int]:
        """Move to the end of records that are returned now, and add the positions that were not returned yet.

        Returns the positions to which it moved.
        """
        read = fetched.next_offsets()
        moved = read | fetched.ends
        self.move(moved, fetched.epochs)
        fetched.ends = {place: at for place, at in self.unreturned.items() if place not in read} | fetched.ends
        self.unreturned = {}
        return moved

    def ends_after(self, fetched: Fetched) -> dict[TopicPartition, int]:
        """Return those of the ends that are after the records."""
        next_positions = self.offsets | fetched.next_offsets()
        return {place: end for place, end in fetched.ends.items() if end > next_positions.get(place, end)}

    def remove(self, places: Collection[TopicPartition]) -> list[TopicPartition]:
        """Remove partitions, and return those that had a position."""
        removed = [place for place in places if self.offsets.pop(place, None) is not None]
        for place in removed:
            self.epochs.pop(place, None)
        return removed

    def stop(self, gaps: Mapping[TopicPartition, LogGap]) -> list[TopicPartition]:
        """Replace positions by gaps, and return the partitions that had a position.

        Positions that were not returned yet would be attributed to the present topic.
        """
        for place, gap in gaps.items():
            log.warning("%s", gap)
            self.unreturned.pop(place, None)
        self.gaps |= gaps
        return self.remove(gaps)


class WaitingPartitions:
    """Partitions that are not assigned yet. Their topics are looked up every few seconds."""

    def __init__(self, positions: Mapping[TopicPartition, LogPosition | None]) -> None:
        self._positions = dict(positions)
        self._looked_s = float("-inf")
        self._missed: set[TopicPartition] = set()  # by the last look

    @property
    def topics(self) -> set[str]:
        return {place.topic for place in self._positions}

    def are_due(self) -> bool:
        return bool(self._positions) and time.monotonic() - self._looked_s >= _LOOK_EVERY_S

    def add(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Add partitions, and look for all of them soon."""
        self._positions |= positions
        self._looked_s = float("-inf")

    def existing(self, topics: Mapping[str, Topic]) -> dict[TopicPartition, LogPosition | None]:
        return {
            place: at
            for place, at in self._positions.items()
            if place.topic in topics and place.partition < topics[place.topic].partitions
        }

    def looked(self, begun: Collection[TopicPartition], refused: Collection[str]) -> None:
        """Remove the partitions that have begun, and log which others do not exist."""
        for place in begun:
            del self._positions[place]
        self._looked_s = time.monotonic()
        missed = {place for place in self._positions if place.topic not in refused}
        if missed - self._missed:
            log.warning("partitions do not exist and are looked for again: %s", place_names(missed))
        self._missed = missed


class PlanInput:
    """Reads a fixed set of partitions. For one thread of one process, except `commit` and `commit_error`.

    Nothing connects before the first poll.
    """

    def __init__(
        self,
        conf: Mapping[str, Any],
        admin: Admin,
        positions: Mapping[TopicPartition, LogPosition | None],
        *,
        begins_at: str = "earliest",
        reader: PlanReader | None = None,
    ) -> None:
        """`conf` is made by `plan_conf`. `admin` is of the same cluster and stays the caller's. `reader` fetches.

        Partitions without a position start at the `earliest` record or after the `latest`; `none` refuses them.
        Raises KafkaRequestError for settings that the client refuses.
        """
        self._guard = ForkGuard()
        self._reader = reader or ClientReader(conf)
        self._waiting = WaitingPartitions(positions)
        self._positions = PlanPositions()
        self._topics = PlanTopics(admin, begins_at)
        self._losses = PlanLosses(self._topics, is_repeated=not isinstance(self._reader, ClientReader))
        self._taken: Fetched | None = None  # from the reader; their topic ids are not checked yet
        self._absence = _BrokerAbsence(str(conf.get("bootstrap.servers", "")))

    @property
    def gaps(self) -> Mapping[TopicPartition, LogGap]:
        """Return the stopped partitions. `go_on` resumes them."""
        return self._positions.gaps

    @property
    def refused(self) -> Mapping[str, str]:
        """Return the topics that the principal may not read, with the cluster's reason. The others are read."""
        return self._topics.refused

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Return the offset of the next record of each partition, after the records that `poll` has returned."""
        return self._positions.offsets

    def topic_id(self, topic: str) -> str:
        """Return the id of the topic that is read; empty as long as it is not known."""
        return self._topics.ids.get(topic, "")

    def epoch(self, place: TopicPartition) -> int:
        """Return the leader epoch of the record before a partition's position, if it is known."""
        return self._positions.epochs.get(place, NO_EPOCH)

    def poll(self, timeout_s: float, most: int, most_bytes: int | None = None) -> Fetched:
        """Return fetched records, waiting up to `timeout_s` for the first. Whole batches may exceed the limits.

        `ends` are positions that moved without a record, and start positions of partitions. Raises
        KafkaUnavailableError if the cluster does not answer additional requests (nothing is lost: poll again), or
        KafkaRequestError. If a broker is down, it waits silently for records.
        """
        self._guard.check("The reader of a plan")
        if self._taken is None:  # else these are from the topics that were known when they came
            self._begin_waiting()
            self._look_into_lost()
            self._take(timeout_s, most, most_bytes)
        fetched = self._checked(Fetched() if self._taken is None else self._taken)
        self._taken = None
        if len(fetched) or fetched.ends:
            self._absence.end()
        self._losses.decided(self._positions.move_after(fetched))  # the log continues there
        return fetched

    def go_on(self, place: TopicPartition, offset: int) -> None:
        """Resume a partition with a gap at this offset, in the topic that existed when the gap was found."""
        gap = self._positions.gaps.pop(place)
        self._waiting.add({place: LogPosition(offset, gap.topic_id)})
        self._positions.unreturned[place] = offset

    @property
    def commit_error(self) -> str | None:
        """Return why the last answered commit was refused; None if it succeeded or none was answered."""
        return self._reader.commits.error

    def commit(self, offsets: Collection[GroupOffset]) -> None:
        """Commit offsets to the group that `conf` names, without waiting for the outcome. For any thread.

        A coordinator accepts a commit without a member only for a group that has no members (E10). `poll` receives the
        outcome. Until then no new partition is started, which takes seconds if the commit is not permitted. Does
        nothing once the input is closed.
        """
        self._guard.check("The reader of a plan")
        self._reader.commits.commit(offsets)

    def close(self) -> None:
        """Close the reader. Idempotent."""
        self._reader.close()

    # beginning

    def _begin_waiting(self) -> None:
        """Assign the waiting partitions whose topics exist. Others may appear later."""
        if self._waiting.are_due():
            found = self._topics.readable(self._waiting.topics)
            self._record_ids(found)
            there = self._waiting.existing(found)
            self._begin(there, found)
            self._waiting.looked(there, self._topics.refused)

    def _begin(self, wanted: Mapping[TopicPartition, LogPosition | None], found: Mapping[str, Topic]) -> None:
        known = {place: at for place, at in wanted.items() if at is not None}
        fresh = self._topics.first_offsets(wanted.keys() - known.keys())
        others = {p: at.offset for p, at in known.items() if at.topic_id not in ("", found[p.topic].id)}
        self._stop(self._losses.gaps(others, found, GapKind.RECREATED))
        begun = {place: LogPosition(offset) for place, offset in fresh.items()} | known
        self._assign({place: at for place, at in begun.items() if place not in others})
        # A later start also begins there and checks the topic's id, so records deleted before they are read are a gap.
        self._positions.unreturned |= fresh
        self._positions.unreturned |= {place: at.offset for place, at in known.items() if not at.topic_id}

    def _assign(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        if positions:
            found = {p: LogPosition(at.offset, self._topics.ids[p.topic], at.epoch) for p, at in positions.items()}
            self._reader.assign(found)
            offsets = {place: at.offset for place, at in found.items()}
            self._positions.move(offsets, {place: (at.offset, at.epoch) for place, at in found.items()})

    # reading

    def _take(self, timeout_s: float, most: int, most_bytes: int | None) -> None:
        found = self._reader.read(timeout_s, most, most_bytes)
        self._losses.add(found)
        for topic, why in found.refused.items():
            self._topics.refuse(topic, why)
        if found.away is not None:
            self._absence.record(found.away)
        self._taken = found.fetched if len(found.fetched) or found.fetched.ends else None

    def _checked(self, fetched: Fetched) -> Fetched:
        """Return the records of the right topics. Partitions of other topics have gaps afterwards."""
        fetched.ends = self._positions.ends_after(fetched)
        if self._reader.knows_topics:
            return fetched
        touched = {*fetched.next_offsets(), *fetched.ends}
        replaced = self._record_ids(self._topics.current({place.topic for place in touched}))
        return fetched.without({place for place in touched if place.topic in replaced}) if replaced else fetched

    def _record_ids(self, topics: Mapping[str, Topic]) -> set[str]:
        """Stop reading topics whose id has changed, and return their names.

        A topic that is gone is not among them: its records so far are right.
        """
        ids = self._topics.ids
        replaced = {name for name, topic in topics.items() if ids.get(name, topic.id) != topic.id}
        affected = {place: offset for place, offset in self.positions.items() if place.topic in replaced}
        self._stop(self._losses.gaps(affected, topics, GapKind.RECREATED))
        ids.update((name, topic.id) for name, topic in topics.items())
        return replaced

    # gaps

    def _look_into_lost(self) -> None:
        """Find out why the client found nothing at a position. Raises KafkaUnavailableError: nothing has changed."""
        if not self._losses.take_turn():
            return
        lost = self._losses.lost
        topics = self._topics.readable({place.topic for place in lost})
        self._record_ids(topics)
        affected = {place: at for place, at in self.positions.items() if place in lost}
        gaps, in_doubt = self._losses.sure_gaps(affected, topics)
        self._stop(gaps)
        for place in affected.keys() - gaps.keys() - in_doubt:
            if place.topic in topics:  # the log has the position: with the epoch this would repeat for ever
                self._positions.epochs.pop(place, None)
        self._losses.looked(in_doubt)
        again = {
            place: LogPosition(at, self._topics.ids[place.topic], self.epoch(place))
            for place, at in affected.items()
            if place not in self.gaps and place not in self._losses.lost
        }
        if again:  # their topic is gone, or nothing is wrong with them any more
            self._unassign(self._positions.remove(again))
            self._waiting.add(again)

    def _stop(self, gaps: Mapping[TopicPartition, LogGap]) -> None:
        self._unassign(self._positions.stop(gaps))
        self._losses.decided(gaps)

    def _unassign(self, places: Collection[TopicPartition]) -> None:
        if places:
            self._reader.unassign(places)


class _BrokerAbsence:
    """Logs once that nothing can be read, until the next records."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_away = False

    def record(self, why: str) -> None:
        if not self._is_away:
            log.warning("no broker of %s can be reached; waiting: %s", self._bootstrap, why)
        self._is_away = True

    def end(self) -> None:
        if self._is_away:
            self._is_away = False
            log.info("%s answers again", self._bootstrap)
