"""Logs that were cut while a group did not read, for members whose client fetches (decision 0106).

A broker says where the records of a leader epoch end in its log (KIP-320). If that is below an offset up to which the
leader of the epoch had everything, the log was cut there, also if it has grown past the offset since.
"""

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from fencepost.kafka.admin.client import Admin
from fencepost.kafka.errors import KafkaRequestError
from fencepost.kafka.read.doubt import SURE_S, Doubts
from fencepost.kafka.read.known_positions import ReadLog, assigned_log
from fencepost.kafka.value.group_offset import GroupOffset
from fencepost.kafka.value.log_gap import NO_EPOCH
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

IF_RESTORED = "If the cluster was restored from a copy, choose where to continue (PATCH /connectors/<name>/offsets)"
"""What to do where brokers report only older leaders than one that was read from."""

_LOOK_EVERY_S = 1.0


class Looked(NamedTuple):
    """What brokers say: the ids of topics, the committed offsets whose logs are still the same, where others were cut.

    `starts`: where to read on, if that is not the committed offset. `away`: partitions without a leader that could
    say, or with an older one than that of the offset.
    """

    topic_ids: Mapping[str, str]
    known: Mapping[TopicPartition, ReadLog]
    starts: Mapping[TopicPartition, int]
    away: Collection[TopicPartition] = ()


def look_at(
    conf: Mapping[str, Any], places: Collection[TopicPartition], committed: Mapping[TopicPartition, GroupOffset]
) -> Looked:
    """Compare the logs of partitions with what was committed in them. Waits for ten seconds if one seems to be cut.

    An offset without the id of the present topic is not compared: the epochs of another topic say nothing.
    """
    try:
        with closing(Admin(conf)) as admin:
            ids = {name: found.id for name, found in admin.topics.get_all({place.topic for place in places}).items()}
            read = {place: assigned_log(each) for place, each in committed.items()}
            known = {place: each for place, each in read.items() if each and each.topic_id == ids.get(place.topic)}
            away = admin.offsets.without_leader(known)
            led = {place: each for place, each in known.items() if place not in away}
            starts, epochs = _starts(admin, led), admin.offsets.epochs
            older = {place for place, each in led.items() if NO_EPOCH != epochs.get(place, NO_EPOCH) < each.epoch}
            return Looked(ids, known, starts, away | older)
    except KafkaRequestError as error:
        if error.code != KafkaError._INVALID_ARG:
            raise
        log.warning("it is not noticed if a log was cut while the group did not read: %s", error)
        return Looked({}, {}, {})


def _starts(admin: Admin, known: Mapping[TopicPartition, ReadLog]) -> dict[TopicPartition, int]:
    """Return where to read on in logs that end, as the readers of `known` had them, before the committed offset.

    After the last record that was read there is nothing that readers see, so to begin there earlier repeats nothing.
    """
    doubts: Doubts[TopicPartition] = Doubts()
    left, lower = known, dict[TopicPartition, int]()
    while True:
        found = admin.offsets.ends_of_epochs({place: each.epoch for place, each in left.items()})
        lower |= {place: end for place, end in found.items() if left[place].read_to <= end < left[place].offset}
        left = {place: left[place] for place, end in found.items() if end < left[place].read_to}
        if len(doubts.confirmed(known, left, time.monotonic(), SURE_S)) == len(left):
            break
        time.sleep(min(_LOOK_EVERY_S, SURE_S / 4))
    begins = admin.offsets.starts(left)
    return lower | {place: max(found[place], begins[place]) for place in left}
