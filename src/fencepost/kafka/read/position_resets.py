"""Applies `auto.offset.reset` to partitions that have nothing at their positions."""

import logging
import time
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaException

from fencepost.kafka.errors import is_unavailable, kafka_error
from fencepost.kafka.read.consumer import UNKNOWN_PARTITION
from fencepost.kafka.read.doubt import DOUBT_EVERY_S, SURE_S, Doubts
from fencepost.kafka.read.member_client import MemberClient
from fencepost.kafka.read.start_positions import StartPositions, nowhere_to_begin
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_FIRST_ASK_S, _LONGEST_ASK_S = 0.1, 2.0


class PositionResets:
    """The partitions at whose positions there is nothing. Each is asked for the edges of its log."""

    def __init__(self, client: MemberClient, starts: StartPositions) -> None:
        self._client = client
        self._starts = starts
        self._lost: dict[TopicPartition, float] = {}  # when to ask for the log's edges
        self._cut: set[TopicPartition] = set()  # of those: their last read records are no longer in the log
        self.doubts: Doubts[TopicPartition] = Doubts()
        """Logs that seem to end before the position."""
        self._ask_s = _FIRST_ASK_S  # how long to wait for an answer

    def __len__(self) -> int:
        return len(self._lost)

    def add(self, lost: Collection[TopicPartition], cut: Collection[TopicPartition]) -> None:
        """Add partitions. Of those in `cut`, the last read records are no longer in the log."""
        for place in lost:
            self._lost.setdefault(place, 0.0)
        self._cut.update(self._lost.keys() & cut)

    def drop(self, places: Collection[TopicPartition]) -> None:
        """Remove partitions: their positions have moved, or they are no longer read."""
        self._cut.difference_update(places)
        for place in places:
            self._lost.pop(place, None)

    def maybe_reset(self, positions: Mapping[TopicPartition, LogPosition]) -> dict[TopicPartition, LogPosition]:
        """Return the position at which a partition should continue; one partition in each turn.

        A broker that does not answer is asked again later, after the other partitions and with a longer time-out. A
        broker whose log seems to end before the position is also asked again: it may just have lost its leadership.
        """
        place = min(self._lost, key=lambda place: self._lost[place], default=None)
        if place is None or time.monotonic() < self._lost[place]:
            return {}
        at = positions[place].offset
        try:
            begin, end = self._client.edges(place, self._ask_s)
        except KafkaException as error:
            if is_unavailable(kafka_error(error)) or kafka_error(error).code() in UNKNOWN_PARTITION:
                self._ask_s = min(2 * self._ask_s, _LONGEST_ASK_S)
                self._lost[place] = time.monotonic() + 2 * self._ask_s
                return {}
            raise self._client.failed(error, f"asking where {place.topic}-{place.partition} goes on") from error
        self._ask_s = _FIRST_ASK_S
        is_beyond = at > end
        is_confirmed = self.doubts.confirmed([place], [place] if is_beyond else [], time.monotonic(), SURE_S)
        if at < begin or is_confirmed or place in self._cut:
            at = self._edge(place, at, begin, end)
        elif is_beyond:
            self._lost[place] = time.monotonic() + DOUBT_EVERY_S
            return {}
        return {place: LogPosition(at)}  # at the same offset, its broker was not its leader

    def _edge(self, place: TopicPartition, at: int, begin: int, end: int) -> int:
        self.doubts.forget([place])
        resets_to = self._starts.resets_of(place)
        if resets_to == "error":
            raise nowhere_to_begin(place, f"offset {at} is out of range")
        offset = self._starts.edge(place, begin, end)
        log.warning(
            "%s-%d has nothing at offset %d: it is read from offset %d on, as auto.offset.reset is %s",
            *place, at, offset, resets_to,
        )  # fmt: skip
        return offset
