"""Reads given partitions, each from a position, without joining a group.

If a log has no records at the position, that is a gap. The partition is then stopped until the caller says where to
continue; nothing is silently skipped or read again.

1. Take records from the client.
2. Request the ids of their topics, because the client would continue in a new topic of the same name at the same
offset.
   An id is never reused, so everything fetched before the request is from the topic with that id. A reader that
   fetches topics by id does not need this: brokers report that the topic no longer exists.
3. Only then return the records.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from confluent_kafka import KafkaError

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.topics import Topic
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.fork import ForkGuard
from fencepost.kafka.read.doubt import SURE_S, Doubts
from fencepost.kafka.read.plan_reader import ClientReader, PlanReader
from fencepost.kafka.value.fetched import Fetched
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.log_gap import NO_EPOCH, GapKind, LogGap, LogPosition
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_ASK_S = 5.0
_LOOK_EVERY_S = 5.0
_DOUBT_EVERY_S = 0.25
_PASSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


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
        self._admin = admin
        self._bootstrap = str(conf.get("bootstrap.servers", ""))
        self._begins_at = begins_at
        self._waiting = dict(positions)  # not assigned yet
        self._positions: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}  # leader epochs before the positions, if known
        self._ids: dict[str, str] = {}
        self._gaps: dict[TopicPartition, LogGap] = {}
        self._lost: set[TopicPartition] = set()  # for which the client reports nothing at the position
        self._cut: set[TopicPartition] = set()  # those of them whose read records no longer exist
        self._unreturned: dict[TopicPartition, int] = {}  # positions to return with the next records
        self._taken: Fetched | None = None  # from the client; their topic ids are not checked yet
        self._looked_s = float("-inf")
        self._missed: set[TopicPartition] = set()  # by the last look
        self._refused: dict[str, str] = {}
        self._doubts: Doubts[TopicPartition] = Doubts()  # of logs that seem to end before a position
        self._doubted_s = float("-inf")
        self._is_away = False
        self._reader = reader or ClientReader(conf)

    @property
    def gaps(self) -> Mapping[TopicPartition, LogGap]:
        """Return the stopped partitions. `go_on` resumes them."""
        return self._gaps

    @property
    def refused(self) -> Mapping[str, str]:
        """Return the topics that the principal may not read, with the cluster's reason. The others are read."""
        return self._refused

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Return the offset of the next record of each partition, after the records that `poll` has returned."""
        return self._positions

    def topic_id(self, topic: str) -> str:
        """Return the id of the topic that is read; empty as long as it is not known."""
        return self._ids.get(topic, "")

    def epoch(self, place: TopicPartition) -> int:
        """Return the leader epoch of the record before a partition's position, if it is known."""
        return self._epochs.get(place, NO_EPOCH)

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
        if self._is_away and (len(fetched) or fetched.ends):
            self._is_away = False
            log.info("%s answers again", self._bootstrap)
        read = fetched.next_offsets()
        self._doubts.forget(read.keys() | fetched.ends.keys())  # the log continues there
        self._stand_at(read | fetched.ends, fetched.epochs)
        fetched.ends = {place: at for place, at in self._unreturned.items() if place not in read} | fetched.ends
        self._unreturned = {}
        return fetched

    def go_on(self, place: TopicPartition, offset: int) -> None:
        """Resume a partition with a gap at this offset, in the topic that existed when the gap was found."""
        gap = self._gaps.pop(place)
        self._waiting[place] = LogPosition(offset, gap.topic_id)
        self._unreturned[place] = offset
        self._looked_s = float("-inf")

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
        if not self._waiting or time.monotonic() - self._looked_s < _LOOK_EVERY_S:
            return
        found = self._described({place.topic for place in self._waiting})
        self._record_ids(found)
        there = {
            p: at for p, at in self._waiting.items() if p.topic in found and p.partition < found[p.topic].partitions
        }
        self._begin(there, found)
        for place in there:
            del self._waiting[place]
        self._looked_s = time.monotonic()
        missed = {place for place in self._waiting if place.topic not in self._refused}
        if missed - self._missed:
            log.warning("partitions do not exist and are looked for again: %s", _names(missed))
        self._missed = missed

    def _begin(self, wanted: Mapping[TopicPartition, LogPosition | None], found: Mapping[str, Topic]) -> None:
        known = {place: at for place, at in wanted.items() if at is not None}
        fresh = self._fresh_starts(wanted.keys() - known.keys())
        others = {p: at.offset for p, at in known.items() if at.topic_id not in ("", found[p.topic].id)}
        self._stop(self._found_gaps(others, found, GapKind.RECREATED))
        begun = {place: LogPosition(offset) for place, offset in fresh.items()} | known
        self._assign({place: at for place, at in begun.items() if place not in others})
        # A later start also begins there and checks the topic's id, so records deleted before they are read are a gap.
        self._unreturned |= fresh
        self._unreturned |= {place: at.offset for place, at in known.items() if not at.topic_id}

    def _fresh_starts(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        if not places:
            return {}
        if self._begins_at == "none":
            raise KafkaRequestError(
                f"There is no position for {_names(places)}, and auto.offset.reset is none: set their offsets "
                "(PATCH /connectors/<name>/offsets)",
                KafkaError._AUTO_OFFSET_RESET,
            )
        found = self._ends(places, read_committed=True) if self._begins_at == "latest" else self._starts(places)
        fresh = {TopicPartition(*place): max(offset, 0) for place, offset in found.items()}
        if later := [place for place, offset in fresh.items() if offset]:
            log.info(
                "partitions without a position start at the %s offset, not at 0: %s", self._begins_at, _names(later)
            )
        return fresh

    def _assign(self, positions: Mapping[TopicPartition, LogPosition]) -> None:
        """Start reading partitions, each from a position in the present topic."""
        if positions:
            found = {p: LogPosition(at.offset, self._ids[p.topic], at.epoch) for p, at in positions.items()}
            self._reader.assign(found)
            offsets = {place: at.offset for place, at in found.items()}
            self._stand_at(offsets, {place: (at.offset, at.epoch) for place, at in found.items()})

    def _stand_at(
        self, offsets: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, tuple[int, int]]
    ) -> None:
        """Store positions, and the leader epochs that are known for exactly these."""
        self._positions |= offsets
        for place, offset in offsets.items():
            at, epoch = epochs.get(place, (offset, NO_EPOCH))
            self._epochs[place] = epoch if at == offset else NO_EPOCH

    # reading

    def _take(self, timeout_s: float, most: int, most_bytes: int | None) -> None:
        """Take fetched records, and handle everything else."""
        found = self._reader.read(timeout_s, most, most_bytes)
        self._lost |= found.lost
        self._cut |= found.cut
        for topic, why in found.refused.items():
            self._refuse(topic, why)
        if found.away is not None:
            self._record_absence(found.away)
        self._taken = found.fetched if len(found.fetched) or found.fetched.ends else None

    def _checked(self, fetched: Fetched) -> Fetched:
        """Return the records of the right topics. Partitions of other topics have gaps afterwards."""
        fetched.ends = self._moved(fetched)
        if self._reader.knows_topics:
            return fetched
        touched = {*fetched.next_offsets(), *fetched.ends}
        replaced = self._record_ids(self._admin.topics.get_all({place.topic for place in touched}, timeout_s=_ASK_S))
        return fetched.without({place for place in touched if place.topic in replaced}) if replaced else fetched

    def _moved(self, fetched: Fetched) -> dict[TopicPartition, int]:
        """Return the ends that are after the records."""
        next_positions = self._positions | fetched.next_offsets()
        return {place: end for place, end in fetched.ends.items() if end > next_positions.get(place, end)}

    def _record_absence(self, why: str) -> None:
        """Log once that nothing can be read now. The next records end this state."""
        if not self._is_away:
            log.warning("no broker of %s can be reached; waiting: %s", self._bootstrap, why)
        self._is_away = True

    # what topics are

    def _described(self, topics: Collection[str]) -> dict[str, Topic]:
        """Return those of the topics that exist and that the principal may see."""
        try:
            return self._admin.topics.get_all(topics, timeout_s=_ASK_S)
        except KafkaAuthorizationError as error:
            if len(topics) == 1:
                self._refuse(next(iter(topics)), str(error))
                return {}
        found: dict[str, Topic] = {}
        for topic in topics:  # to find which one is refused
            found |= self._described([topic])
        return found

    def _refuse(self, topic: str, why: str) -> None:
        if topic not in self._refused:
            log.error("topic %s is not read, the others are: %s", topic, why)
        self._refused[topic] = why

    def _record_ids(self, topics: Mapping[str, Topic]) -> set[str]:
        """Stop reading topics whose id has changed, and return their names.

        A topic that is gone is not among them: its records so far are right.
        """
        replaced = {name for name, topic in topics.items() if self._ids.get(name, topic.id) != topic.id}
        affected = {place: offset for place, offset in self._positions.items() if place.topic in replaced}
        self._stop(self._found_gaps(affected, topics, GapKind.RECREATED))
        self._ids |= {name: topic.id for name, topic in topics.items()}
        return replaced

    # gaps

    def _look_into_lost(self) -> None:
        """Find out why the client found nothing at a position. Raises KafkaUnavailableError: nothing has changed."""
        now_s = time.monotonic()
        if not self._lost or (len(self._doubts) and now_s - self._doubted_s < _DOUBT_EVERY_S):
            return
        self._doubted_s = now_s
        topics = self._described({place.topic for place in self._lost})
        self._record_ids(topics)
        affected = {place: at for place, at in self._positions.items() if place in self._lost}
        gaps = self._found_gaps({place: at for place, at in affected.items() if place.topic in topics}, topics)
        in_doubt = {place for place, gap in gaps.items() if gap.kind is GapKind.CUT}
        confirmed = self._doubts.confirmed(affected, in_doubt, now_s, SURE_S)
        in_doubt -= confirmed
        gaps = {place: gap for place, gap in gaps.items() if place not in in_doubt}
        self._stop(gaps)
        for place in affected.keys() - gaps.keys() - in_doubt:
            if place.topic in topics:
                self._epochs.pop(place, None)  # the log has the position: with the epoch this would repeat for ever
        self._begin_again({place: at for place, at in affected.items() if place not in self._gaps})
        self._lost.clear()
        self._cut.clear()

    def _begin_again(self, affected: Mapping[TopicPartition, int]) -> None:
        """Look for partitions again: their topic is gone, or nothing is wrong with them any more."""
        if not affected:
            return
        epochs = dict(self._epochs)
        self._unassign(affected)
        for place, at in affected.items():
            self._waiting[place] = LogPosition(at, self._ids[place.topic], epochs.get(place, NO_EPOCH))
        self._looked_s = float("-inf")

    def _found_gaps(
        self, positions: Mapping[TopicPartition, int], topics: Mapping[str, Topic], kind: GapKind | None = None
    ) -> dict[TopicPartition, LogGap]:
        """Return the gaps at these positions. `kind` is given if it is already known."""
        there = [place for place in positions if place.partition < topics[place.topic].partitions]
        starts, ends = self._starts(there), self._ends(there, read_committed=False)
        found = {}
        for place, at in positions.items():
            start, end = starts.get(place, 0), ends.get(place, 0)
            why = kind or _kind(at, start, end) or (GapKind.DIVERGED if place in self._cut else None)
            if why is not None:
                found[place] = LogGap(place, why, at, start, end, topics[place.topic].id)
        return found

    def _starts(self, places: Collection[TopicPartition]) -> Mapping[tuple[str, int], int]:
        return _patiently(lambda: self._admin.offsets.starts(places, timeout_s=_ASK_S))

    def _ends(self, places: Collection[TopicPartition], *, read_committed: bool) -> Mapping[tuple[str, int], int]:
        return _patiently(lambda: self._admin.offsets.ends(places, read_committed=read_committed, timeout_s=_ASK_S))

    def _stop(self, gaps: Mapping[TopicPartition, LogGap]) -> None:
        for gap in gaps.values():
            log.warning("%s", gap)
        self._unassign(gaps)
        self._doubts.forget(gaps)
        self._drop_unreturned(gaps)
        self._gaps |= gaps

    def _drop_unreturned(self, places: Collection[TopicPartition]) -> None:
        """Drop positions that were not returned yet: they would be attributed to the present topic."""
        for place in places:
            self._unreturned.pop(place, None)

    def _unassign(self, places: Collection[TopicPartition]) -> None:
        assigned = [place for place in places if self._positions.pop(place, None) is not None]
        for place in assigned:
            self._epochs.pop(place, None)
        if assigned:
            self._reader.unassign(assigned)


def _patiently(ask: Callable[[], Mapping[tuple[str, int], int]]) -> Mapping[tuple[str, int], int]:
    """Ask for start or end offsets. Raises KafkaUnavailableError also for a log that not all brokers know yet."""
    try:
        return ask()
    except KafkaRequestError as error:
        if error.code in _PASSING:
            raise KafkaUnavailableError(str(error)) from error
        raise


def _kind(at: int, start: int, end: int) -> GapKind | None:
    if at < start:
        return GapKind.TRUNCATED
    return GapKind.CUT if at > end else None


def _names(places: Collection[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(places))
