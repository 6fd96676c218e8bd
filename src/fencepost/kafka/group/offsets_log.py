"""Reads the raw log of committed offsets, which names the producer of each batch. No request returns that.

The offsets of a group are in one partition of `__consumer_offsets`, chosen by the group's name. Offsets of a
transaction are written there when they are sent, long before the transaction ends. An abort leaves them there, and
compaction keeps the last one of each partition.
"""

import struct
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import KafkaError

from fencepost.kafka.errors import KafkaAuthorizationError
from fencepost.kafka.group.committed_offsets import Committed
from fencepost.kafka.group.contribution import contribution_of
from fencepost.kafka.retrying import AGAIN_S
from fencepost.kafka.wire.errors import AnswerError, LostError, ensure
from fencepost.kafka.wire.requests import RequestClient
from fencepost.record import TopicPartition

if TYPE_CHECKING:
    from fencepost.kafka.codec.committed import FetchedBatch

TOPIC = "__consumer_offsets"

_AT_ONCE = 4 * 1024 * 1024
_LATEST, _EARLIEST = -1, -2
_BY_NAME = 12  # of Fetch: newer versions name topics by their ids
_TRANSACTIONAL = 0x10
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
    """The partition of the log that holds a group's offsets, the broker that leads it, and the leader's epoch."""

    partition: int
    leader: int
    epoch: int = -1


def partition_of(group: str, count: int) -> int:
    """Return which of `count` partitions holds a group's offsets, from Java's hash of its name."""
    found = 0
    for (unit,) in struct.iter_unpack(">H", group.encode("utf-16-be")):
        found = (31 * found + unit) & 0xFFFFFFFF
    return (found if found < 1 << 31 else (1 << 32) - found) % (1 << 31) % count


def find(client: RequestClient, group: str) -> OffsetsPartition | None:
    """Find the partition of a group's offsets, as two brokers know it; None if no group has any yet.

    Raises KafkaAuthorizationError.
    """
    (topic,) = client.metadata([TOPIC], is_sure=True).topics
    if topic.error_code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise denied()
    if topic.error_code == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return None
    ensure(topic.error_code, f"metadata of topic {TOPIC}")
    partition = partition_of(group, len(topic.partitions))
    (found,) = (each for each in topic.partitions if each.partition_index == partition)
    if found.leader_id < 0:
        raise AnswerError(KafkaError.LEADER_NOT_AVAILABLE, f"the leader of {TOPIC}-{partition}")
    return OffsetsPartition(partition, found.leader_id, found.leader_epoch)


def read(
    client: RequestClient, where: OffsetsPartition, group: str, start: int, passed: set[int] | None = None
) -> tuple[list[LoggedOffset], int]:
    """Return a group's transactional offsets from `start` to the present end of the log, and that end.

    With `passed`, producers whose offsets' metadata names them (stream tasks, which may fill most of a long log) are
    skipped: each is read until it is recognized, and is then added to `passed`.

    The end is requested from the leader, which may refuse. The high watermark in a fetch response lags after a
    failover; a reader that stopped there would miss the last producers.
    """
    from fencepost.kafka.codec.committed import Answered, Position, committed_batches  # with Arrow

    found: list[LoggedOffset] = []
    end = _edge(client, where, _LATEST)
    while start < end:
        answer = _fetched(client, where, start)
        if answer is None:
            begin = _edge(client, where, _EARLIEST)
            if begin <= start:
                raise AnswerError(KafkaError.NOT_LEADER_FOR_PARTITION, f"{_name(where)} has nothing at offset {start}")
            start = begin
            continue
        before = start
        sent, position = committed_batches(Answered(memoryview(answer.records or b"")), Position(start))
        start = position.offset
        for batch in sent:
            if passed is None or batch.head.producer not in passed:
                offsets = list(_offsets(batch, group))
                found += offsets
                if passed is not None and any(contribution_of(each.committed.metadata) for each in offsets):
                    passed.add(batch.head.producer)
        if start == before:
            if answer.high_watermark >= end:
                break  # compaction has removed the rest
            time.sleep(AGAIN_S)
    return found, start


def denied() -> KafkaAuthorizationError:
    return KafkaAuthorizationError(
        f"Not authorized to read the topic {TOPIC}, which shows whose transactions have offsets of a group. Grant Read "
        "on it (`fencepost acls` lists what is needed)."
    )


def _name(where: OffsetsPartition) -> str:
    return f"{TOPIC}-{where.partition}"


def _fetched(client: RequestClient, where: OffsetsPartition, start: int) -> Any:
    """Fetch records from `start`; None if the log starts later.

    A fetch above a quota gets an immediate, empty response. The client waits before it sends another request.
    """
    from fencepost.kafka.kafka_library import FetchRequest as Request

    of_topic = Request.FetchTopic
    asked = of_topic.FetchPartition(
        partition=where.partition,
        current_leader_epoch=where.epoch,
        fetch_offset=start,
        partition_max_bytes=_AT_ONCE,
    )
    request = Request(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_AT_ONCE,
        isolation_level=0,
        topics=[of_topic(topic=TOPIC, partitions=[asked])],
    )
    while not (found := client.ask(request, where.leader, oldest=4, newest=_BY_NAME).responses):
        pass
    answer = found[0].partitions[0]
    if answer.error_code == KafkaError.OFFSET_OUT_OF_RANGE:
        return None
    if answer.error_code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise denied()
    if answer.error_code == KafkaError.UNKNOWN:
        raise LostError(f"the broker failed to read {_name(where)}", is_sent=False)
    ensure(answer.error_code, f"reading {_name(where)}")
    return answer


def _edge(client: RequestClient, where: OffsetsPartition, edge: int) -> int:
    """Return the start of the log, or its end including pending records.

    A leader whose high watermark has not caught up yet refuses this with a retriable error, as does a broker that is
    not the leader of that epoch.
    """
    from fencepost.kafka.kafka_library import ListOffsetsRequest as Request

    of_topic = Request.ListOffsetsTopic
    asked = of_topic.ListOffsetsPartition(
        partition_index=where.partition, timestamp=edge, current_leader_epoch=where.epoch
    )
    request = Request(replica_id=-1, isolation_level=0, topics=[of_topic(name=TOPIC, partitions=[asked])])
    found = client.ask(request, where.leader).topics[0].partitions[0]
    ensure(found.error_code, f"the offsets of {_name(where)}")
    return int(found.offset)


def _offsets(batch: "FetchedBatch", group: str) -> Iterator[LoggedOffset]:
    """Yield a group's offsets in a batch.

    Most batches are of other groups, so an uncompressed one is first searched for the group's name.
    """
    from fencepost.kafka.codec.decode import decoded
    from fencepost.kafka.codec.encode_header import HEADER

    if not batch.head.attributes & _TRANSACTIONAL:
        return
    name = group.encode()
    if not batch.head.codec and name not in bytes(batch.view):
        return
    epoch = HEADER.unpack_from(batch.view)[10]
    for record in decoded(batch.view):
        place = None if record.key is None else decode_place(record.key, name)
        if place is not None and record.value is not None:
            yield LoggedOffset(record.offset, batch.head.producer, epoch, place, decode_committed(record.value))


def decode_place(key: bytes, group: bytes) -> TopicPartition | None:
    """Return the partition in an offset's key; None if the key is another group's or is not an offset's."""
    (version,) = struct.unpack_from(">h", key)
    if version not in _OFFSET_KEYS:
        return None
    found, at = _text(key, 2)
    if found != group:
        return None
    topic, at = _text(key, at)
    return TopicPartition(topic.decode(), struct.unpack_from(">i", key, at)[0])


def decode_committed(value: bytes) -> Committed:
    version, offset = struct.unpack_from(">hq", value)
    at = 10 if version < _FIRST_WITH_EPOCH else 14
    metadata, _ = _compact(value, at) if version >= _FIRST_FLEXIBLE else _text(value, at)
    return Committed(offset, metadata.decode().rstrip(_NUL))


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + max(size, 0)
    return data[at + 2 : end], end


def _compact(data: bytes, at: int) -> tuple[bytes, int]:
    size = shift = 0
    while True:
        byte, at = data[at], at + 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            end = at + max(size - 1, 0)
            return data[at:end], end
