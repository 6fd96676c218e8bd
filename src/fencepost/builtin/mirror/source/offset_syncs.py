"""Offset syncs: records that say which source record was copied to which offset, by which positions are translated.

Only facts are written: the downstream offset of a record that is in the log. If its transaction is aborted after all,
the record finally has a later offset, and a position is translated to an earlier offset than necessary, never beyond.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fencepost.api import Header, SourceRecord
from fencepost.builtin.mirror.formats import OffsetSync
from fencepost.builtin.mirror.source.position import last_of, place_of, position_of
from fencepost.hook.mirror import Sent
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.produce.transactional_client import ProducerError
from fencepost.kafka.value.log_gap import LogPosition
from fencepost.record import TopicPartition

log = logging.getLogger(__name__)

_FLUSH_S = 5.0
_PARTITION = 0


class DueSyncs:
    """Decides which syncs to write: if the last one is `lag_max` records behind, or gives a wrong translation.

    The first call with a partition writes all of its syncs: groups are likely to stand at its end.
    """

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._last: dict[TopicPartition, OffsetSync] = {}

    def among(self, syncs: Iterable[OffsetSync]) -> list[OffsetSync]:
        """Return those that are due, and count them as written."""
        known, due = set(self._last), []
        for sync in syncs:
            if sync.topic_partition not in known or self._is_due(sync):
                self._last[sync.topic_partition] = sync
                due.append(sync)
        return due

    def _is_due(self, sync: OffsetSync) -> bool:
        last = self._last[sync.topic_partition]
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
    """Writes syncs to a cluster other than the records', once the records are committed. One thread.

    The mirror continues if this fails: translation is then less exact, until the next sync is written.
    """

    def __init__(self, conf: Mapping[str, Any], topic: str) -> None:
        """`conf` comes from `settings.producer_conf`. Raises ProducerError for invalid settings."""
        self._client = LibrdkafkaProducer(conf)
        self._topic = topic
        self._has_failed = False

    def write(self, syncs: Sequence[OffsetSync]) -> None:
        """Write, and wait only for space in the queue."""
        try:
            for sync in syncs:
                fields = {"key": sync.key(), "partition": _PARTITION, "headers": sync.headers()}
                self._client.produce(self._topic, sync.value(), **fields)
            self._client.serve(0)
            failed, self._client.failed_delivery = self._client.failed_delivery, None
            self._report(failed)
        except ProducerError as error:
            self._report(error)

    def close(self) -> None:
        """Wait a short time for writes in progress, and close."""
        try:
            self._client.flush(_FLUSH_S)
        except ProducerError as error:
            self._report(error)
        self._client.drop()

    def _report(self, failure: ProducerError | None) -> None:
        """Log a failure when it begins."""
        if failure is not None and not self._has_failed:
            log.warning("offset syncs cannot be written to topic %s at the moment: %s", self._topic, failure)
        self._has_failed = failure is not None
