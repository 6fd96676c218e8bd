"""The position of a mirror in a source partition, as a source offset: MirrorMaker's, with the topic's id.

The partition is `{"cluster": alias, "topic": name, "partition": number}`, the offset `{"offset": the last one copied}`.
The offset also has the id of its topic, `topic_id`, and the epoch of the leader that appended the last record,
`leader_epoch`, if known. MirrorMaker does not write these, and ignores them.

A gap that was skipped is recorded among the source offsets, in the transaction that continues after it, as the source
partition `{"cluster", "topic", "partition", "gap": the position}`. No task reads it as a position.

Offset syncs: records that say which source record was copied to which offset, by which positions are translated.

Only facts are written: the downstream offset of a record that is in the log. If its transaction is aborted after all,
the record finally has a later offset, and a position is translated to an earlier offset than necessary, never beyond.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from fencepost.api import Config, ConnectError, FatalError, Header, SourceRecord, one_of, setting
from fencepost.builtin.mirror.formats import Alterations, OffsetSync, check_offsets
from fencepost.hook.mirror import Sent
from fencepost.kafka.produce.librdkafka_producer import LibrdkafkaProducer
from fencepost.kafka.produce.transactional_client import ProducerError
from fencepost.kafka.value.position import NO_EPOCH, LogGap, LogPosition
from fencepost.record import TopicPartition

_CLUSTER, _TOPIC, _PARTITION = "cluster", "topic", "partition"
_OFFSET, _TOPIC_ID, _EPOCH = "offset", "topic_id", "leader_epoch"
_GAP = "gap"


def source_partition(alias: str, place: TopicPartition) -> dict[str, Any]:
    """Return the name of a partition of the source in the offsets topic."""
    return {_CLUSTER: alias, _TOPIC: place.topic, _PARTITION: place.partition}


def source_offset(last: int, topic_id: str, epoch: int = NO_EPOCH) -> dict[str, Any]:
    """Return a source offset. It says that everything up to and including `last` was copied or needs no copy."""
    if not topic_id:
        return {_OFFSET: last}
    known = {_OFFSET: last, _TOPIC_ID: topic_id}
    return known if epoch == NO_EPOCH else known | {_EPOCH: epoch}


def place_of(partition: Mapping[str, Any]) -> TopicPartition:
    """Return the partition of the source."""
    return TopicPartition(partition[_TOPIC], partition[_PARTITION])


def place_within(partition: Mapping[str, Any], alias: str) -> TopicPartition | None:
    """Return the partition of the source with that alias; None for other source partitions, such as gaps."""
    topic, number = partition.get(_TOPIC), partition.get(_PARTITION)
    if partition.keys() != {_CLUSTER, _TOPIC, _PARTITION} or partition[_CLUSTER] != alias:
        return None
    return TopicPartition(topic, number) if isinstance(topic, str) and isinstance(number, int) else None


def last_of(offset: Mapping[str, Any]) -> int:
    """Return the offset of the last record that is copied."""
    return int(offset[_OFFSET])


def position_of(offset: Mapping[str, Any]) -> LogPosition | None:
    """Return the position after a committed source offset; None if it has no offset."""
    last = offset.get(_OFFSET)
    if last is None:
        return None
    epoch = offset.get(_EPOCH)
    known = epoch if isinstance(epoch, int) and offset.get(_TOPIC_ID) else NO_EPOCH
    return LogPosition(int(last) + 1, str(offset.get(_TOPIC_ID, "")), known)


def check_altered(offsets: Alterations, alias: str) -> None:
    """Check source offsets that an administrator sets for a connector with source `alias`. Raises ConnectError."""
    check_offsets(offsets, texts=(_CLUSTER, _TOPIC), has_partition=True, is_read=True)
    for partition in (dict(items) for items, offset in offsets.items() if offset is not None):
        if partition[_CLUSTER] != alias:
            raise ConnectError(
                f"The source partition {partition} belongs to cluster '{partition[_CLUSTER]}', but this connector's "
                f"source is '{alias}' (source.cluster.alias)"
            )
        if odd := sorted(partition.keys() - {_CLUSTER, _TOPIC, _PARTITION}):
            raise ConnectError(f"The source partition {partition} has unknown keys: {', '.join(odd)}")


class OffsetColumn(Sequence[dict[str, Any]]):
    """The source offsets of records, kept as columns of numbers, topic ids and leader epochs."""

    __slots__ = ("epochs", "numbers", "topic_ids")

    def __init__(self, numbers: Sequence[int], topic_ids: Sequence[str], epochs: Sequence[int]) -> None:
        self.numbers = numbers
        self.topic_ids = topic_ids
        self.epochs = epochs

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "OffsetColumn": ...
    def __getitem__(self, index: int | slice) -> "dict[str, Any] | OffsetColumn":
        if isinstance(index, slice):
            return OffsetColumn(self.numbers[index], self.topic_ids[index], self.epochs[index])
        return source_offset(self.numbers[index], self.topic_ids[index], self.epochs[index])


class GapSettings(Config):
    """What happens at a gap."""

    on_gap: str = setting(
        "on.source.gap", default="fail", check=one_of("fail", "record", ignore_case=False),
        doc="What happens when records were deleted before they were mirrored, a log was cut, or a topic was "
        "recreated: `fail` fails the task; `record` continues with the first record that is not mirrored, and records "
        "the gap.",
    )  # fmt: skip


def gap_error(gaps: Sequence[LogGap], connector: str) -> FatalError:
    """Return the error of a task that fails for these gaps: the cause, the numbers, and two ways to continue."""
    text = "; ".join(str(gap) for gap in gaps)
    return FatalError(
        f"Records of the source are lost for this mirror: {text}. Either choose where to continue (stop the connector, "
        f'PATCH /connectors/{connector}/offsets with {{"offset": the last offset to skip}} for each of them, '
        f"resume it), or set {GapSettings.key_of('on_gap')}=record, which continues with the first record of each "
        "log that is not mirrored, and records the gap"
    )


def gap_record(alias: str, gap: LogGap, at_ms: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the source partition and offset that record a gap which the mirror has skipped."""
    text = {
        "reason": gap.kind.name.lower(),
        "position": gap.position,
        "log_start": gap.start,
        "log_end": gap.end,
        "continues_at": gap.next_offset,
        "topic_id": gap.topic_id,
        "time_ms": at_ms,
    }
    return {**source_partition(alias, gap.place), _GAP: gap.position}, text


def is_gap_record(partition: Mapping[str, Any]) -> bool:
    """Say whether a source partition is the record of a gap."""
    return _GAP in partition


def gap_of_offset(partition: Mapping[str, Any], offset: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the description of a recorded gap; None for any other source partition."""
    if not is_gap_record(partition):
        return None
    return {**{key: value for key, value in partition.items() if key != _GAP}, **offset}


log = logging.getLogger(__name__)

_FLUSH_S = 5.0
_SYNC_PARTITION = 0


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
    return SourceRecord({}, {}, topic, sync.value(), key=sync.key(), kafka_partition=_SYNC_PARTITION, headers=headers)


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
                fields = {"key": sync.key(), "partition": _SYNC_PARTITION, "headers": sync.headers()}
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
