"""Decides that offsets are lost, which takes more than one answer.

Only a leader's answer to ListOffsets says where a log begins and ends. If a new leader's high watermark has not caught
up with what its predecessor had committed, it answers OFFSET_NOT_AVAILABLE, and `Admin` waits until that is over. What
a fetch reports is no evidence. A broker that does not know yet that it is no longer the leader answers for its own copy
of the log. So an end that is too low counts only if it is still reported a while later.

Logs that were cut while a group did not read, for members whose client fetches (decision 0106).

A broker says where the records of a leader epoch end in its log (KIP-320). If that is below an offset up to which the
leader of the epoch had everything, the log was cut there, also if it has grown past the offset since.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from typing import Any, Generic, NamedTuple, TypeVar

from confluent_kafka import KafkaError

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import DataLossError, KafkaRequestError
from fencepost.kafka.read.known_positions import ReadLog, assigned_log, is_of_cluster
from fencepost.kafka.value.position import NO_EPOCH, GroupOffset
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

K = TypeVar("K")

SURE_S = 10.0
"""How long a log has to seem too short before what is missing counts as lost."""
DOUBT_EVERY_S = 0.25
"""How often a reader asks again while it doubts."""
_LOOKS = 4
_LOOK_EVERY_S = 1.0


class Doubts(Generic[K]):
    """Adds up for how long things have seemed to be lost, from one look at them to the next.

    The time between two looks counts, but at most a quarter of the required time. So if looks are far apart, as those
    of a mirror on a slow link, the fifth look confirms a loss. If all of that time counted, two wrong answers that are
    hours apart would be enough.
    """

    def __init__(self) -> None:
        self._doubted_s: dict[K, float] = {}
        self._seen_s: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._seen_s)

    def confirmed(self, looked_at: Collection[K], seeming: Collection[K], now_s: float, sure_s: float) -> set[K]:
        """Return the keys of `seeming`, a part of `looked_at`, that have seemed lost for `sure_s` by now.

        A key that was looked at and did not seem lost starts again at zero.
        """
        self.forget({key for key in looked_at if key not in seeming})
        for key in seeming:
            passed_s = now_s - self._seen_s.get(key, now_s)
            self._doubted_s[key] = self._doubted_s.get(key, 0.0) + min(passed_s, sure_s / _LOOKS)
        self._seen_s |= dict.fromkeys(seeming, now_s)
        return {key for key in seeming if self._doubted_s[key] >= sure_s}

    def forget(self, keys: Collection[K]) -> None:
        """Forget these keys: nobody asks for them any more, or their loss is decided."""
        for key in keys:
            self._doubted_s.pop(key, None)
            self._seen_s.pop(key, None)


class LowestEnds:
    """The lowest ends of logs that seem to end before a position, since that was first seen of the position.

    Producers write on after a log was cut: reading continues where it was cut, even if it has grown past the position.
    """

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, tuple[int, int, int]] = {}  # position, lowest end, epoch of the leader

    def __contains__(self, place: TopicPartition) -> bool:
        return place in self._seen

    def lowest(self, place: TopicPartition, at: int, end: int, epoch: int = NO_EPOCH) -> int:
        """Return the lowest end, after a leader of this epoch has reported an end before position `at`.

        Only ends of one leader are compared: an earlier one may have been deposed, and what it lacked was read.
        """
        before, lowest, short_epoch = self._seen.get(place, (at, end, epoch))
        if before != at or short_epoch != epoch:
            if before == at and lowest < end:
                _log_passed(place, lowest, end)
            lowest = end
        lowest = min(lowest, end)
        self._seen[place] = at, lowest, epoch
        return lowest

    def cut_at(self, place: TopicPartition, at: int, epoch: int = NO_EPOCH) -> int | None:
        """Return where a log that has position `at` now was cut; None if that is not certain, which is logged.

        The end that a leader lists never moves back: it lists none until it knows of all that was committed before its
        epoch (KIP-207). If the leader of the same epoch reported an end before the position earlier, the position was
        read from another log. A leader of another epoch may not have known that it was deposed.
        """
        before, lowest, short_epoch = self._seen.pop(place, (None, at, NO_EPOCH))
        if before != at:
            return None
        if epoch == short_epoch != NO_EPOCH:
            return lowest
        _log_passed(place, lowest, at)
        return None

    def passed(self, places: Collection[TopicPartition]) -> None:
        """Log that these are read from their positions on, and forget them."""
        for place in places:
            if place in self._seen:
                at, lowest, _ = self._seen.pop(place)
                _log_passed(place, lowest, at)

    def forget(self, places: Collection[TopicPartition]) -> None:
        for place in places:
            self._seen.pop(place, None)


def sure_ends(
    ask: Callable[[Collection[K]], Mapping[K, int]], wanted: Mapping[K, int], sure_s: float = SURE_S
) -> tuple[dict[K, int], dict[K, int]]:
    """Return the ends of logs, as `ask` reports them, and where they were cut if they end before `wanted`.

    An end below the `wanted` offset was reported for `sure_s`. A log grows after it was cut, so the lowest end of that
    time says where that was.
    """
    ends, doubts = dict(ask(wanted.keys())), Doubts[K]()
    short = {key for key, at in wanted.items() if ends[key] < at}
    lowest = {key: ends[key] for key in short}
    while short := short - doubts.confirmed(short, short, time.monotonic(), sure_s):
        time.sleep(min(_LOOK_EVERY_S, sure_s / _LOOKS))
        ends |= ask(short)
        for key in short:
            lowest[key] = min(lowest[key], ends[key])
            if ends[key] >= wanted[key]:
                _log_passed(key, lowest.pop(key), wanted[key])
        short = {key for key in short if ends[key] < wanted[key]}
    return ends, lowest


def _log_passed(place: object, lowest: int, at: int) -> None:
    log.error(
        "%s seemed to end at %d, before position %d, and is read from there now. Unless a broker answered that was no "
        "longer its leader, the log was cut, and offsets %d to %d are not read",
        place, lowest, at, lowest, at - 1,
    )  # fmt: skip


def report_loss(wanted: object, what: str, *, is_error: bool) -> None:
    """Raise DataLossError, or log an error. `what` says what was lost of the range `wanted`."""
    if is_error:
        raise DataLossError(
            f"{wanted} cannot be read: {what}. Read on from where the log begins now (startingOffsets, or a new "
            "checkpoint), keep records for longer (retention.ms of the topic), or, if the loss is known and accepted, "
            "set option failOnDataLoss to false"
        )
    log.error(
        "%s: %s; what there is of it is read, as failOnDataLoss is false. Find out why records were lost (an unclean "
        "election, too few replicas, retention.ms), and read them again from where they came from",
        wanted, what,
    )  # fmt: skip


IF_RESTORED = "If the cluster was restored from a copy, choose where to continue (PATCH /connectors/<name>/offsets)"
"""What to do where brokers report only older leaders than one that was read from."""


class Looked(NamedTuple):
    """What brokers say: the ids of topics, the committed offsets whose logs are still the same, where others were cut.

    `known` has those of topics that do not exist, too: one that is created now is another. `starts`: where to read on,
    if that is not the committed offset. `away`: partitions without a leader that could say, and answers, or with an
    older one than that of the offset. `replaced`: partitions whose topics were created again.
    """

    topic_ids: Mapping[str, str]
    known: Mapping[TopicPartition, ReadLog]
    starts: Mapping[TopicPartition, int]
    away: Collection[TopicPartition] = ()
    replaced: Collection[TopicPartition] = ()
    cluster: str = ""


def look_at(
    conf: Mapping[str, Any], places: Collection[TopicPartition], committed: Mapping[TopicPartition, GroupOffset]
) -> Looked:
    """Compare the logs of partitions with what was committed in them. Waits for ten seconds if one seems to be cut.

    An offset without the id of the present topic is not compared: the epochs of another topic say nothing. Two brokers
    are asked for the id.
    """
    try:
        with closing(Admin(conf)) as admin:
            ids = {name: found.id for name, found in admin.topics.get_all({place.topic for place in places}).items()}
            logs = {place: assigned_log(each) for place, each in committed.items()}
            read = {place: each for place, each in logs.items() if each and ids.get(place.topic)}
            known = {place: each for place, each in read.items() if each.topic_id == ids[place.topic]}
            away = admin.offsets.without_leader(known)
            led = {place: each for place, each in known.items() if place not in away}
            silent: set[TopicPartition] = set()
            starts, epochs = _starts(admin, led, silent), admin.offsets.epochs
            older = {place for place, each in led.items() if NO_EPOCH != epochs.get(place, NO_EPOCH) < each.epoch}
            gone = {place: each for place, each in logs.items() if each and place.topic not in ids}
            cluster = admin.cluster_id()
            replaced = {p for p in read.keys() - known.keys() if is_of_cluster(committed[p], cluster)}
            return Looked(ids, known | gone, starts, away | older | silent | gone.keys(), replaced, cluster)
    except KafkaRequestError as error:
        if error.code != KafkaError._INVALID_ARG:
            raise
        log.warning("it is not noticed if a log was cut while the group did not read: %s", error)
        return Looked({}, {}, {})


def _starts(
    admin: Admin, known: Mapping[TopicPartition, ReadLog], silent: set[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return where to read on in logs that end, as the readers of `known` had them, before the committed offset.

    `silent` gets those whose leaders do not answer. After the last record that was read there is nothing that readers
    see, so to begin there earlier repeats nothing.
    """
    doubts: Doubts[TopicPartition] = Doubts()
    left, lower = known, dict[TopicPartition, int]()
    while True:
        found = admin.offsets.ends_of_epochs({place: each.epoch for place, each in left.items()}, silent)
        lower |= {place: end for place, end in found.items() if left[place].read_to <= end < left[place].offset}
        left = {place: left[place] for place, end in found.items() if end < left[place].read_to}
        if len(doubts.confirmed(known, left, time.monotonic(), SURE_S)) == len(left):
            break
        time.sleep(min(_LOOK_EVERY_S, SURE_S / 4))
    begins = admin.offsets.starts(left)
    return lower | {place: max(found[place], begins[place]) for place in left}
