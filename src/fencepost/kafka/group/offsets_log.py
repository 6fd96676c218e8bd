"""Reads the raw log of committed offsets, which names the producer of each batch. No request returns that.

The offsets of a group are in one partition of `__consumer_offsets`, chosen by the group's name. Offsets of a
transaction are written there when they are sent, long before the transaction ends. An abort leaves them there, and
compaction keeps the last one of each partition.
"""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from fencepost.kafka.errors import KafkaAuthorizationError
from fencepost.kafka.group.contribution import contribution_of
from fencepost.kafka.group.group_survey import Committed
from fencepost.record import TopicPartition

TOPIC = "__consumer_offsets"

_AT_ONCE = 4 * 1024 * 1024
_AGAIN_S = 0.05
_DENIED, _MISSING, _OUT_OF_RANGE = 29, 3, 1  # TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
_NEWEST_BY_NAME = 12  # of Fetch: newer ones go by the topic's id
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">i")
_CODEC, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
_OFFSET_KEYS = (0, 1)
_FIRST_FLEXIBLE, _FIRST_WITH_EPOCH = 4, 3
_NUL = "\0"  # librdkafka ends the metadata of offsets with one


class LoggedOffset(NamedTuple):
    """An offset that a producer has added to a transaction; `at` is its position in the log."""

    at: int
    producer_id: int
    producer_epoch: int
    place: TopicPartition
    committed: Committed


class OffsetsPartition(NamedTuple):
    """The partition of the log that holds a group's offsets, and the broker that leads it."""

    partition: int
    leader: int


def partition_of(group: str, count: int) -> int:
    """Return which of `count` partitions holds a group's offsets, from Java's hash of its name."""
    found = 0
    for (unit,) in struct.iter_unpack(">H", group.encode("utf-16-be")):
        found = (31 * found + unit) & 0xFFFFFFFF
    return (found if found < 1 << 31 else (1 << 32) - found) % (1 << 31) % count


async def find(client: Any, group: str) -> OffsetsPartition | None:
    """Find the partition of a group's offsets; None if no group has any yet. Raises KafkaAuthorizationError."""
    from kafka.errors import LeaderNotAvailableError

    (topic,) = (await client._get_cluster_metadata([TOPIC]))["topics"]
    if topic["error_code"] == _DENIED:
        raise denied()
    if topic["error_code"] == _MISSING:
        return None
    leaders = {each["partition_index"]: each["leader_id"] for each in topic["partitions"]}
    if not leaders:
        raise LeaderNotAvailableError(TOPIC)
    partition = partition_of(group, len(leaders))
    return OffsetsPartition(partition, leaders[partition])


async def read(
    client: Any, where: OffsetsPartition, group: str, start: int, passed: set[int] | None = None
) -> tuple[list[LoggedOffset], int]:
    """Return a group's transactional offsets from `start` to the present end of the log, and that end.

    With `passed`, producers whose offsets' metadata names them (stream tasks, which may fill most of a long log) are
    skipped: each is read until it is recognized, and is then added to `passed`.

    The end is requested from the leader, which may refuse. The high watermark in a fetch response lags after a
    failover; a reader that stopped there would miss the last producers.
    """
    from kafka.errors import NotLeaderForPartitionError

    found: list[LoggedOffset] = []
    end = await _edge(client, where, is_end=True)
    while start < end:
        answer = await _fetched(client, where, start)
        if answer is None:
            begin = await _edge(client, where, is_end=False)
            if begin <= start:
                raise NotLeaderForPartitionError(f"{TOPIC}-{where.partition} has nothing at offset {start}")
            start = begin
            continue
        before, records = start, bytes(answer.records or b"")
        for header, batch in _batches(records):
            start = header[0] + header[6] + 1
            if passed is None or header[9] not in passed:
                offsets = list(_offsets(header, batch, group))
                found += offsets
                if passed is not None and any(contribution_of(each.committed.note) for each in offsets):
                    passed.add(header[9])
        if start == before:
            if answer.high_watermark >= end:
                break  # compaction has removed the rest
            await client._net.sleep(_AGAIN_S)
    return found, start


def denied() -> KafkaAuthorizationError:
    return KafkaAuthorizationError(
        f"Not authorized to read the topic {TOPIC}, which shows whose transactions have offsets of a group. Grant Read "
        "on it (`fencepost acls` lists what is needed)."
    )


async def _fetched(client: Any, where: OffsetsPartition, start: int) -> Any:
    """Fetch records from `start`; None if the log starts later."""
    from kafka.errors import for_code
    from kafka.protocol.consumer import FetchRequest

    topic = FetchRequest.FetchTopic
    asked = topic.FetchPartition(partition=where.partition, fetch_offset=start, partition_max_bytes=_AT_ONCE)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_AT_ONCE,
        isolation_level=0,
        topics=[topic(topic=TOPIC, partitions=[asked])],
        max_version=_NEWEST_BY_NAME,
    )
    answer = await _answered(client, where, request)
    if answer.error_code == _OUT_OF_RANGE:
        return None
    if answer.error_code == _DENIED:
        raise denied()
    if answer.error_code:
        raise for_code(answer.error_code)(f"reading {TOPIC}-{where.partition}")
    return answer


async def _answered(client: Any, where: OffsetsPartition, request: Any) -> Any:
    """Send a request until its response has the partition. A fetch above a quota gets an immediate, empty response.

    The client then waits before it sends another request.
    """
    while True:
        answer = await client._manager.send(request, node_id=where.leader)
        if answer.responses:
            return answer.responses[0].partitions[0]


async def _edge(client: Any, where: OffsetsPartition, *, is_end: bool) -> int:
    """Return the start of the log, or its end including pending records.

    A leader whose high watermark has not caught up yet refuses this with a retriable error.
    """
    from kafka.admin import OffsetSpec
    from kafka.structs import TopicPartition as ClientPartition

    place = ClientPartition(TOPIC, where.partition)
    wanted = OffsetSpec.LATEST if is_end else OffsetSpec.EARLIEST
    found = await client._async_list_partition_offsets({place: wanted})
    return int(found[place].offset)


def _batches(records: bytes) -> Iterator[tuple[tuple[Any, ...], memoryview]]:
    """Yield the header of each whole batch, and the batch."""
    view, at = memoryview(records), 0
    while at + _HEADER.size <= len(records):
        end = at + 12 + _LENGTH.unpack_from(records, at + 8)[0]
        if end > len(records):
            return
        yield _HEADER.unpack_from(records, at), view[at:end]
        at = end


def _offsets(header: tuple[Any, ...], batch: memoryview, group: str) -> Iterator[LoggedOffset]:
    """Yield a group's offsets in a batch.

    Most batches are of other groups, so an uncompressed one is first searched for the group's name.
    """
    attributes, producer_id, epoch = header[5], header[9], header[10]
    if not attributes & _TRANSACTIONAL or attributes & _CONTROL:
        return
    name = group.encode()
    if not attributes & _CODEC and name not in bytes(batch):
        return
    from kafka.record.default_records import DefaultRecordBatch

    for record in DefaultRecordBatch(batch):
        place = _place(record.key, name)
        if place is not None and record.value is not None:
            yield LoggedOffset(record.offset, producer_id, epoch, place, _committed(record.value))


def _place(key: bytes, group: bytes) -> TopicPartition | None:
    """Return the partition in an offset's key; None if the key is another group's or is not an offset's."""
    (version,) = struct.unpack_from(">h", key)
    if version not in _OFFSET_KEYS:
        return None
    found, at = _text(key, 2)
    if found != group:
        return None
    topic, at = _text(key, at)
    return TopicPartition(topic.decode(), struct.unpack_from(">i", key, at)[0])


def _committed(value: bytes) -> Committed:
    version, offset = struct.unpack_from(">hq", value)
    at = 10 if version < _FIRST_WITH_EPOCH else 14
    note, _ = _compact(value, at) if version >= _FIRST_FLEXIBLE else _text(value, at)
    return Committed(offset, note.decode().rstrip(_NUL))


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    """Read a string. Returns it and the position after it."""
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + max(size, 0)
    return data[at + 2 : end], end


def _compact(data: bytes, at: int) -> tuple[bytes, int]:
    """Read a compact string, which starts with its length plus one as a varint."""
    size = shift = 0
    while True:
        byte, at = data[at], at + 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            end = at + max(size - 1, 0)
            return data[at:end], end
