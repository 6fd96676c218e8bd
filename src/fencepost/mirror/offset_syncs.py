"""Offset syncs: it is written down now and then which record of the source has gone where, so that positions translate.

Only what is certain is written: the downstream offset of a record that is in the log. Where its transaction came to
nothing after all, the record stands further behind in the end, and a position is translated to before it, not beyond.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fencepost.api import Header, Sent, SourceRecord
from fencepost.kafka.produce.producer import ProducerClient
from fencepost.kafka.produce.transactional_client import ProducerError
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.mirror.formats import OffsetSync
from fencepost.mirror.position import last_of, place_of, position_of
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_FLUSH_S = 5.0
_PARTITION = 0


class DueSyncs:
    """Says which syncs are worth being written: where the last one is `lag_max` records behind, or misleads."""

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._last: dict[TopicPartition, OffsetSync] = {}

    def among(self, syncs: Iterable[OffsetSync]) -> list[OffsetSync]:
        """Return those that are due, and take them for written."""
        due = [sync for sync in syncs if self._is_due(sync)]
        self._last |= {sync.topic_partition: sync for sync in due}
        return due

    def _is_due(self, sync: OffsetSync) -> bool:
        last = self._last.get(sync.topic_partition)
        if last is None:
            return True
        downstream = sync.downstream_offset - last.downstream_offset
        upstream = sync.upstream_offset - last.upstream_offset
        return downstream - 1 >= self._lag_max or downstream < 0 or upstream > downstream


def sync_of(sent: Sent) -> OffsetSync:
    """Return the sync of a record that is in the log."""
    offset = sent.offset or {}
    behind = position_of(offset) or LogPosition(0)
    return OffsetSync(
        place_of(sent.partition), last_of(offset), sent.metadata.offset, topic_id=behind.topic_id, epoch=behind.epoch
    )


def as_record(sync: OffsetSync, topic: str) -> SourceRecord:
    """Return a sync as a record of the topic of offset syncs."""
    headers = tuple(Header(name, value) for name, value in sync.headers())
    return SourceRecord({}, {}, topic, sync.value(), key=sync.key(), kafka_partition=_PARTITION, headers=headers)


class SyncWriter:
    """Writes syncs to another cluster than the records go to, once these are committed. One thread's.

    A mirror goes on where it cannot: positions then translate less exactly, until the next sync gets there.
    """

    def __init__(self, conf: Mapping[str, Any], topic: str) -> None:
        """`conf` is made by `settings.producer_conf`. Raises ProducerError for settings that are no good."""
        self._client = ProducerClient(conf)
        self._topic = topic
        self._is_in_trouble = False

    def write(self, syncs: Sequence[OffsetSync]) -> None:
        """Write, and wait for nothing but room in the queue."""
        try:
            for sync in syncs:
                fields = {"key": sync.key(), "partition": _PARTITION, "headers": sync.headers()}
                self._client.produce(self._topic, sync.value(), **fields)
            self._client.serve(0)
            failed, self._client.failed_delivery = self._client.failed_delivery, None
            self._note(failed)
        except ProducerError as error:
            self._note(error)

    def close(self) -> None:
        """Wait a little for what is under way, and let go."""
        try:
            self._client.flush(_FLUSH_S)
        except ProducerError as error:
            self._note(error)
        self._client.drop()

    def _note(self, trouble: ProducerError | None) -> None:
        """Tell of trouble when it begins, and when it is over."""
        if trouble is not None and not self._is_in_trouble:
            log.warning("offset syncs cannot be written to topic %s: %s", self._topic, trouble)
        self._is_in_trouble = trouble is not None
