"""The logs that a task reads in epochs: where they end, and where to continue if records are gone."""

import logging
import time
from collections.abc import Mapping
from dataclasses import replace

from fencepost.api import FatalError, RetriableError
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.read.doubt import IF_RESTORED, SURE_S, Doubts, LowestEnds
from fencepost.kafka.value.position import NO_EPOCH
from fencepost.record import TopicPartition, place_names
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.sink.epoch_plan import EpochOffset, EpochOffsets, OpenEpoch
from fencepost.worker.host.epoch.membership import HeldPartitions

log = logging.getLogger(__name__)


class EpochLogs:
    """Used by the task's thread."""

    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        self._admin: Admin | None = None
        self._ends: dict[TopicPartition, int] = {}
        self._doubts: Doubts[TopicPartition] = Doubts()  # logs that seem to end before the group's offset
        self._lowest = LowestEnds()  # of these
        self._unled: Doubts[TopicPartition] = Doubts()  # whose newest leaders do not answer

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(self._spec.input.reader_admin_conf)
        return self._admin

    def look(
        self, held: HeldPartitions, there: set[TopicPartition]
    ) -> tuple[dict[TopicPartition, EpochOffset], dict[TopicPartition, int]]:
        """Return the group's offsets and the ends of the logs, for the partitions that are `there`.

        If only committed records are read, a log ends before its first open transaction. Lost records below the group's
        offset are skipped with a warning. A group at the end of a log is within it, so the beginnings, and the ends
        including open transactions, are only asked for the other partitions. A log that ends before the group's offset
        was cut, also if it has grown past the offset since, unless its topic has another id than the one of which the
        group has read: then it is read as a new one.
        """
        is_committed = self._spec.input.consumer_conf.get("isolation.level", "read_committed") != "read_uncommitted"
        offsets = {place: s for place, s in held.offsets.items() if place in there}
        ids = {name: topic.id for name, topic in self.admin.topics.get_all({p.topic for p in offsets}).items()}
        known = {place: s for place, s in offsets.items() if s.has_known_log}
        replaced = {p for p, s in known.items() if s.metadata.topic_id != ids.get(p.topic, "")}
        ends = self.admin.offsets.ends(offsets, read_committed=is_committed)
        led = {place: self.admin.offsets.epochs.get(place, NO_EPOCH) for place in offsets}
        cut, unled = self._compared({place: s for place, s in known.items() if place not in replaced}, led)
        apart = [
            place
            for place, s in offsets.items()
            if ends[place] != s.offset or place in replaced or place in cut or place in self._lowest
        ]
        begins, highs = self.admin.offsets.starts(apart), self.admin.offsets.ends(apart, read_committed=False)
        beyond = {place for place in apart if offsets[place].offset > highs[place]}
        seeming = beyond | replaced | cut.keys()
        lost = self._doubts.confirmed(offsets, seeming, time.monotonic(), SURE_S)
        doubtful = (seeming - lost) | unled  # nothing is planned for these
        for place in apart:
            before, cut_at = offsets[place], cut.get(place)
            epoch = led[place] if place in known else NO_EPOCH
            if place in beyond and cut_at is None:
                cut_at = self._lowest.lowest(place, before.offset, highs[place], epoch)
            elif place not in seeming and (cut_at := self._lowest.cut_at(place, before.offset, epoch)) is not None:
                lost.add(place)
            if place in doubtful:
                continue
            if place in lost and place in known and place not in replaced and cut_at is not None:
                at = self._end_of_cut(place, before.offset, begins[place], cut_at)
            elif before.offset < begins[place] or place in lost:
                at = self._reset(place, before.offset, begins[place], ends[place])
            else:
                continue
            offsets[place] = replace(before, offset=at)
            held.fresh.add(place)
        for place in doubtful:
            ends[place] = offsets[place].offset
        for place in offsets.keys() - doubtful:
            metadata = replace(offsets[place].metadata, topic_id=ids.get(place.topic))
            offsets[place] = held.offsets[place] = EpochOffset(offsets[place].offset, metadata, led[place])
        self._ends = {TopicPartition(*place): end for place, end in ends.items()}
        return offsets, self._ends

    def lags(self, held: HeldPartitions) -> list[int]:
        """Return how many records of each partition are to be read, by the ends at the last look."""
        return [max(0, self._ends[p] - s.offset) for p, s in held.offsets.items() if p in self._ends]

    def repeated(self, epoch: OpenEpoch) -> OpenEpoch:
        """Return an epoch that was planned earlier, before its ranges are read again as the logs are now.

        If a log was cut within the range, this reads what it has there since then. It would be read twice if the cut
        was found later. If it was cut below the range, or does not reach its end yet, that is still to be found.

        Raises RetriableError while brokers report only older leaders than that of the plan: what they lack is no loss.
        """
        ids = {name: topic.id for name, topic in self.admin.topics.get_all(epoch.topic_ids).items()}
        asked = {p: led for p, led in epoch.leader_epochs.items() if epoch.topic_ids.get(p.topic) == ids.get(p.topic)}
        ends = self.admin.offsets.ends(asked, read_committed=False)
        led = {place: self.admin.offsets.epochs[place] for place in asked}
        if unled := {place for place, planned in asked.items() if NO_EPOCH != led[place] < planned}:
            raise RetriableError(
                f"brokers report only older leaders of {place_names(unled)} than that with which epoch "
                f"{epoch.epoch.number} was planned. {IF_RESTORED}"
            )
        found, now = self.admin.offsets.ends_of_epochs(asked), self.admin.offsets.epochs
        newer = {
            each.place: led[each.place]
            for each in epoch.epoch.ranges
            if found.get(each.place, -1) >= each.start
            and ends[each.place] >= each.end
            and now[each.place] == led[each.place]
        }
        return replace(epoch, leader_epochs={**epoch.leader_epochs, **newer})

    def _compared(
        self, known: EpochOffsets, led: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
        """Return where logs were cut below the group's offsets, and the partitions whose newest leaders do not answer.

        `led`: the epochs of the leaders that answer. If it is the epoch of the offset, nothing was cut: a leader's log
        never becomes shorter.
        """
        other = {p: s.leader_epoch for p, s in known.items() if NO_EPOCH != led[p] != s.leader_epoch}
        found = self.admin.offsets.ends_of_epochs({p: epoch for p, epoch in other.items() if epoch < led[p]})
        now = self.admin.offsets.epochs
        unled = {p for p, epoch in other.items() if led[p] < epoch or now[p] != led[p]}
        if sure := self._unled.confirmed(known, unled, time.monotonic(), SURE_S):
            self._unled.forget(sure)  # and log it again after as long
            log.error(
                "task %s has read %s from a newer leader than any that brokers report now. Nothing is read there until "
                "they report it. %s", self._spec.id, place_names(sure), IF_RESTORED,
            )  # fmt: skip
        return {p: end for p, end in found.items() if end < known[p].offset}, unled

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _end_of_cut(self, place: TopicPartition, offset: int, begin: int, cut_at: int) -> int:
        """Return where to continue in a log that was cut. Raises FatalError if the user has to decide."""
        self._ensure_may_reset(f"was at offset {offset} of {place.topic}-{place.partition}, which was cut at {cut_at}")
        log.error(
            "task %s was at offset %d of %s-%d, whose log was cut at %d: reading continues there",
            self._spec.id, offset, *place, cut_at,
        )  # fmt: skip
        return max(begin, cut_at)

    def _reset(self, place: TopicPartition, offset: int, begin: int, end: int) -> int:
        """Return where to continue if the log has nothing at an offset. Raises FatalError if the user has to decide."""
        reset = self._spec.input.consumer_conf.get("auto.offset.reset", "earliest")
        self._ensure_may_reset(what := _described(place, offset, begin, end))
        at = begin if reset == "earliest" else end
        then = "records that it wrote are written again" if at < offset else "the records in between are gone"
        log.error(
            "task %s %s: it continues at %d, as auto.offset.reset is %s, and %s. If that is not what you want, stop "
            "the connector and choose another offset (PATCH /connectors/<name>/offsets)",
            self._spec.id, what, at, reset, then,
        )  # fmt: skip
        return at

    def _ensure_may_reset(self, what: str) -> None:
        if self._spec.input.consumer_conf.get("auto.offset.reset") == "error":
            raise FatalError(
                f"The group {what}, and auto.offset.reset is none: choose where to continue (PATCH "
                "/connectors/<name>/offsets)"
            )


def _described(place: TopicPartition, offset: int, begin: int, end: int) -> str:
    return f"was at offset {offset} of {place.topic}-{place.partition}, whose log goes from {begin} to {end} now"
