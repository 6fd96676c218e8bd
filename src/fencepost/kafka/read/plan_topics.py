"""What a plan's reader asks its cluster: what topics there are, and what is wrong with their logs."""

import logging
import time
from collections.abc import Callable, Collection, Mapping

from confluent_kafka import KafkaError

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.admin.topics import Topic
from fencepost.kafka.errors import KafkaAuthorizationError, KafkaRequestError, KafkaUnavailableError
from fencepost.kafka.read.consumer import UNKNOWN_PARTITION
from fencepost.kafka.read.doubt import DOUBT_EVERY_S, SURE_S, Doubts, LowestEnds
from fencepost.kafka.read.plan_reader import Read
from fencepost.kafka.value.position import NO_EPOCH, GapKind, LogGap
from fencepost.record import TopicPartition, place_names

log = logging.getLogger(__name__)

_ASK_S = 5.0


class PlanTopics:
    """The topics that are read, by their ids, and those that the principal may not read.

    All methods that ask raise KafkaUnavailableError if the cluster does not answer.
    """

    def __init__(self, admin: Admin, begins_at: str) -> None:
        """`begins_at`: where partitions without a position start."""
        self._admin = admin
        self._begins_at = begins_at
        self.ids: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        """Topics that the principal may not read, with the cluster's reason."""

    def current(self, topics: Collection[str]) -> dict[str, Topic]:
        """Return those of the topics that exist."""
        return self._admin.topics.get_all(topics, timeout_s=_ASK_S)

    def readable(self, topics: Collection[str]) -> dict[str, Topic]:
        """Return those of the topics that exist and that the principal may see."""
        try:
            return self.current(topics)
        except KafkaAuthorizationError as error:
            if len(topics) == 1:
                self.refuse(next(iter(topics)), str(error))
                return {}
        found: dict[str, Topic] = {}
        for topic in topics:  # to find which one is refused
            found |= self.readable([topic])
        return found

    def refuse(self, topic: str, why: str) -> None:
        if topic not in self.refused:
            log.error("topic %s is not read, the others are: %s", topic, why)
        self.refused[topic] = why

    def first_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the start offsets of partitions without a position. Raises KafkaRequestError if there may be none."""
        if not places:
            return {}
        if self._begins_at == "none":
            raise KafkaRequestError(
                f"There is no position for {place_names(places)}, and auto.offset.reset is none: set their offsets "
                "(PATCH /connectors/<name>/offsets)",
                KafkaError._AUTO_OFFSET_RESET,
            )
        found = self.ends(places, read_committed=True) if self._begins_at == "latest" else self.starts(places)
        fresh = {TopicPartition(*place): max(offset, 0) for place, offset in found.items()}
        if later := [place for place, offset in fresh.items() if offset]:
            log.info(
                "partitions without a position start at the %s offset, not at 0: %s",
                self._begins_at,
                place_names(later),
            )
        return fresh

    def starts(self, places: Collection[TopicPartition]) -> Mapping[tuple[str, int], int]:
        return _ask(lambda: self._admin.offsets.starts(places, timeout_s=_ASK_S))

    def ends(self, places: Collection[TopicPartition], *, read_committed: bool) -> Mapping[tuple[str, int], int]:
        return _ask(lambda: self._admin.offsets.ends(places, read_committed=read_committed, timeout_s=_ASK_S))

    def leader_epoch(self, place: TopicPartition) -> int:
        """Return the epoch of the leader that answered last where a log starts or ends."""
        return self._admin.offsets.epochs.get(place, NO_EPOCH)


class PlanLosses:
    """The partitions for which the reader reports nothing at the position."""

    def __init__(self, topics: PlanTopics, *, is_repeated: bool) -> None:
        """`is_repeated`: a partition that was cut is reported again if it is assigned again at the same position.

        librdkafka reports it only once, so that once has to do.
        """
        self._topics = topics
        self._is_repeated = is_repeated
        self.lost: set[TopicPartition] = set()
        self._cut: dict[TopicPartition, int] = {}  # those whose read records no longer exist, from which offset on
        self.doubts: Doubts[TopicPartition] = Doubts()
        """Logs that seem to end before a position."""
        self._lowest = LowestEnds()  # of these
        self._looked_s = float("-inf")

    def add(self, read: Read) -> None:
        self.lost |= read.lost
        self._cut |= {place: common.offset for place, common in read.cut.items()}

    def decided(self, places: Collection[TopicPartition]) -> None:
        """Forget doubts about partitions: reading goes on, or stops at a gap."""
        self.doubts.forget(places)
        self._lowest.forget(places)

    def looked(self, in_doubt: Collection[TopicPartition]) -> None:
        """Keep the partitions in doubt that are looked at again, and forget the others: what they lack is decided.

        If the reader says that one was cut, it will do so again once it is assigned.
        """
        self.lost = {place for place in in_doubt if place not in self._cut}
        self._cut.clear()

    def take_turn(self) -> bool:
        """Return whether to look into them now; if not, this has to be asked again a little later."""
        now_s = time.monotonic()
        if not self.lost or (len(self.doubts) and now_s - self._looked_s < DOUBT_EVERY_S):
            return False
        self._looked_s = now_s
        return True

    def sure_gaps(
        self, positions: Mapping[TopicPartition, int], topics: Mapping[str, Topic]
    ) -> tuple[dict[TopicPartition, LogGap], set[TopicPartition]]:
        """Return gaps at positions of lost partitions, and the partitions for which it is not certain yet."""
        gaps = self.gaps({place: at for place, at in positions.items() if place.topic in topics}, topics)
        in_doubt = {place for place, gap in gaps.items() if self._is_doubtful(gap)}
        in_doubt -= self.doubts.confirmed(positions, in_doubt, self._looked_s, SURE_S)
        return {place: gap for place, gap in gaps.items() if place not in in_doubt}, in_doubt

    def _is_doubtful(self, gap: LogGap) -> bool:
        """Say whether one look is not enough. It is if the reader says once what was cut, or a leader has said both."""
        return gap.is_of_cut_log and (self._is_repeated if gap.place in self._cut else gap.kind is GapKind.CUT)

    def gaps(
        self, positions: Mapping[TopicPartition, int], topics: Mapping[str, Topic], kind: GapKind | None = None
    ) -> dict[TopicPartition, LogGap]:
        """Return the gaps at these positions. `kind` is given if it is already known."""
        there = [place for place in positions if place.partition < topics[place.topic].partitions]
        starts, ends = self._topics.starts(there), self._topics.ends(there, read_committed=False)
        found = {}
        for place, at in positions.items():
            start, end = starts.get(place, 0), ends.get(place, 0)
            why = kind or _kind(at, start, end)
            common = self._cut.get(place)
            if why is None:
                common = self._lowest.cut_at(place, at, self._topics.leader_epoch(place)) if common is None else common
                why = None if common is None else GapKind.DIVERGED
            elif why is GapKind.CUT and common is None:
                common = self._lowest.lowest(place, at, end, self._topics.leader_epoch(place))
            if why is not None:
                common = max(start, min(at, end if common is None else common))
                found[place] = LogGap(place, why, at, start, end, topics[place.topic].id, common)
        return found


def _ask(ask: Callable[[], Mapping[tuple[str, int], int]]) -> Mapping[tuple[str, int], int]:
    """Ask for start or end offsets. Raises KafkaUnavailableError also for a log that not all brokers know yet."""
    try:
        return ask()
    except KafkaRequestError as error:
        if error.code in UNKNOWN_PARTITION:
            raise KafkaUnavailableError(str(error)) from error
        raise


def _kind(at: int, start: int, end: int) -> GapKind | None:
    if at < start:
        return GapKind.TRUNCATED
    return GapKind.CUT if at > end else None
