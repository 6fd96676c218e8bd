"""Decides where to continue in partitions that have nothing at their positions.

In a log that was cut, that is the end of what it has in common with what was read; else `auto.offset.reset` decides.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from confluent_kafka import KafkaException

from fencepost.kafka.errors import is_unavailable, kafka_error
from fencepost.kafka.read.consumer import UNKNOWN_PARTITION
from fencepost.kafka.read.doubt import DOUBT_EVERY_S, SURE_S, Doubts, LowestEnds
from fencepost.kafka.read.member_client import MemberClient
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.read.start_positions import StartPositions, nowhere_to_begin
from fencepost.kafka.value.log_gap import NO_EPOCH, LogPosition
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_FIRST_ASK_S, _LONGEST_ASK_S = 0.1, 2.0


class PositionResets:
    """The partitions at whose positions there is nothing. Each is asked for the edges of its log."""

    def __init__(self, client: MemberClient, starts: StartPositions) -> None:
        self._client = client
        self._starts = starts
        self._lost: dict[TopicPartition, float] = {}  # when to ask for the log's edges
        self._looks: dict[TopicPartition, float] = {}  # the same, for those that are in doubt and read again meanwhile
        self._read = Read()  # what was wrong with them
        self.doubts: Doubts[TopicPartition] = Doubts()
        """Logs that seem to end before the position, and topics that seem to be other ones."""
        self._lowest = LowestEnds()  # of these, if brokers cannot say up to where they are what was read
        self._ask_s = _FIRST_ASK_S  # how long to wait for an answer

    def __len__(self) -> int:
        return len(self._lost)

    def add(self, lost: Collection[TopicPartition], read: Read) -> None:
        """Add partitions. `read` says what is wrong with them."""
        for place in lost:
            self._lost.setdefault(place, self._looks.get(place, 0.0))
        self._read.cut |= {place: common for place, common in read.cut.items() if place in self._lost}
        self._read.replaced |= self._lost.keys() & read.replaced

    def drop(self, places: Collection[TopicPartition]) -> None:
        """Remove partitions: their positions have moved, or they are no longer read."""
        self._read.replaced.difference_update(places)
        for place in places:
            self._lost.pop(place, None)
            self._read.cut.pop(place, None)

    def maybe_reset(self, positions: Mapping[TopicPartition, LogPosition]) -> dict[TopicPartition, LogPosition]:
        """Return the position at which a partition should continue; one partition in each turn.

        A broker that does not answer is asked again later, after the other partitions and with a longer time-out. If
        what was read seems to be gone, the same position is tried for a while: the broker may just have lost its
        leadership.
        """
        place = min(self._lost, key=lambda place: self._lost[place], default=None)
        if place is None or time.monotonic() < self._lost[place]:
            return {}
        at = positions[place]
        try:
            begin, end = self._client.edges(place, self._ask_s)
        except KafkaException as error:
            if is_unavailable(kafka_error(error)) or kafka_error(error).code() in UNKNOWN_PARTITION:
                self._ask_s = min(2 * self._ask_s, _LONGEST_ASK_S)
                self._lost[place] = time.monotonic() + 2 * self._ask_s
                return {}
            raise self._client.failed(error, f"asking where {place.topic}-{place.partition} goes on") from error
        self._ask_s = _FIRST_ASK_S
        is_replaced, common = place in self._read.replaced, self._read.cut.get(place)
        seems_gone = is_replaced or common is not None or at.offset > end
        if at.offset < begin and not seems_gone:
            return {place: LogPosition(self._edge(place, at.offset, begin, end))}
        if not seems_gone:
            self.continued([place])
            return {place: replace(at, epoch=NO_EPOCH)}  # its broker was not its leader
        if at.epoch == NO_EPOCH and not is_replaced:
            end = self._lowest.lowest(place, at.offset, end)
        if not self.doubts.confirmed([place], [place], time.monotonic(), SURE_S):
            self._looks[place] = time.monotonic() + DOUBT_EVERY_S
            return {place: at}
        if is_replaced or not at.topic_id:  # nothing says that the log is the one that was read
            return {place: LogPosition(self._edge(place, at.offset, begin, end))}
        common = common or LogPosition(end)
        offset = self._end_of_common(place, at.offset, max(begin, common.offset))
        return {place: LogPosition(offset, at.topic_id, common.epoch)}

    def answered(self, ends: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Forget doubts about partitions whose leaders have answered at their positions: they have an end."""
        if len(self.doubts):
            self.continued([place for place in ends() if place not in self._lost])

    def continued(self, places: Collection[TopicPartition]) -> None:
        """Forget doubts about partitions, as their logs continue at the positions."""
        self._lowest.passed(places)
        self.forget(places)

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Forget doubts about partitions: they are decided, or no longer read."""
        self.doubts.forget(places)
        self._lowest.forget(places)
        for place in places if self._looks else ():
            self._looks.pop(place, None)

    def _end_of_common(self, place: TopicPartition, at: int, end: int) -> int:
        """Return where to continue in a log that is still what was read only up to `end`. Raises KafkaRequestError."""
        self.forget([place])
        why = f"the log was cut: it is what was read before offset {at} only up to offset {end}"
        if self._starts.resets_of(place) == "error":
            raise nowhere_to_begin(place, why)
        log.warning("%s-%d is read from offset %d on: %s", *place, min(at, end), why)
        return min(at, end)

    def _edge(self, place: TopicPartition, at: int, begin: int, end: int) -> int:
        self.forget([place])
        resets_to = self._starts.resets_of(place)
        if resets_to == "error":
            raise nowhere_to_begin(place, f"offset {at} is out of range")
        offset = self._starts.edge(place, begin, end)
        log.warning(
            "%s-%d has nothing at offset %d: it is read from offset %d on, as auto.offset.reset is %s",
            *place, at, offset, resets_to,
        )  # fmt: skip
        return offset
