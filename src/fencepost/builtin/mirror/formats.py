"""The records of mirroring as Kafka's MirrorMaker writes them: offset syncs, checkpoints, heartbeats.

A text is UTF-8 after a length of two bytes; numbers are big-endian and signed. Values of checkpoints and heartbeats
begin with their version, which is 0.

The check of source offsets that an administrator sets for a connector of a mirror is here, too.
"""

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.api import ConnectError
from fencepost.kafka.value.position import NO_EPOCH, LogPosition
from fencepost.record import TopicPartition

_VERSION = 0
_LONGEST = (1 << 15) - 1
_TOPIC_ID, _EPOCH = "topic_id", "leader_epoch"  # names of headers

Headers = Sequence[tuple[str, bytes | None]]

OFFSET = {"offset": 0}
"""The source offset of every checkpoint and heartbeat: it is not read back, but Connect requires one."""
_PARTITION, _OFFSET = "partition", "offset"
_LARGEST = (1 << 31) - 1

Alterations = Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]


class FormatError(ValueError):
    """The bytes are not a record of this kind."""


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """Says that the record at `upstream_offset` of a source partition was copied to `downstream_offset`.

    Headers have the id of the upstream topic, and the epoch of the leader that appended the record, if known.
    MirrorMaker does not write headers, and ignores them.
    """

    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int
    topic_id: str = field(default="", compare=False)
    epoch: int = field(default=NO_EPOCH, compare=False)

    def key(self) -> bytes:
        return _text(self.topic_partition.topic) + _int32(self.topic_partition.partition)

    def value(self) -> bytes:
        return _int64(self.upstream_offset) + _int64(self.downstream_offset)

    def headers(self) -> list[tuple[str, bytes]]:
        if not self.topic_id:
            return []
        epoch = [] if self.epoch == NO_EPOCH else [(_EPOCH, b"%d" % self.epoch)]
        return [(_TOPIC_ID, self.topic_id.encode()), *epoch]

    @property
    def position(self) -> LogPosition:
        """Return the position after the record, at the source."""
        return LogPosition(self.upstream_offset + 1, self.topic_id, self.epoch)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None, headers: Headers = ()) -> "OffsetSync":
        """Decode a record's key, value and headers. Raises FormatError."""
        place, numbers = _Reader(key, "the key of an offset sync"), _Reader(value, "the value of an offset sync")
        header_texts = {name: (data or b"").decode(errors="replace") for name, data in headers}
        topic_id, epoch = header_texts.get(_TOPIC_ID, ""), header_texts.get(_EPOCH, "")
        return cls(
            TopicPartition(place.text(), place.int32()),
            numbers.int64(),
            numbers.int64(),
            topic_id,
            int(epoch) if topic_id and epoch.isdecimal() else NO_EPOCH,
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Says where a group that has committed `upstream_offset` at the source continues at the target.

    `topic_partition` is the target's.
    """

    group: str
    topic_partition: TopicPartition
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        return _text(self.group) + _text(self.topic_partition.topic) + _int32(self.topic_partition.partition)

    def value(self) -> bytes:
        numbers = _int64(self.upstream_offset) + _int64(self.downstream_offset)
        return _int16(_VERSION) + numbers + _text(self.metadata)

    @property
    def source_partition(self) -> dict[str, Any]:
        """Return the source partition under which Connect stores it."""
        return {"group": self.group, "topic": self.topic_partition.topic, "partition": self.topic_partition.partition}

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "Checkpoint":
        """Decode a record's key and value. Raises FormatError."""
        of, numbers = _Reader(key, "the key of a checkpoint"), _versioned(value, "the value of a checkpoint")
        group, place = of.text(), TopicPartition(of.text(), of.int32())
        return cls(group, place, numbers.int64(), numbers.int64(), numbers.text())


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Says that the flow between two clusters was alive at a time."""

    source_cluster_alias: str
    target_cluster_alias: str
    timestamp_ms: int

    def key(self) -> bytes:
        return _text(self.source_cluster_alias) + _text(self.target_cluster_alias)

    def value(self) -> bytes:
        return _int16(_VERSION) + _int64(self.timestamp_ms)

    @property
    def source_partition(self) -> dict[str, Any]:
        """Return the source partition under which Connect stores it."""
        return {"sourceClusterAlias": self.source_cluster_alias, "targetClusterAlias": self.target_cluster_alias}

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> "Heartbeat":
        """Decode a record's key and value. Raises FormatError."""
        flow, time = _Reader(key, "the key of a heartbeat"), _versioned(value, "the value of a heartbeat")
        return cls(flow.text(), flow.text(), time.int64())


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) > _LONGEST:
        raise FormatError(f"{text[:40]}… has {len(data)} bytes; the limit is {_LONGEST}")
    return _int16(len(data)) + data


def _int16(number: int) -> bytes:
    return struct.pack(">h", number)


def _int32(number: int) -> bytes:
    return struct.pack(">i", number)


def _int64(number: int) -> bytes:
    return struct.pack(">q", number)


class _Reader:
    def __init__(self, data: bytes | None, what: str) -> None:
        if data is None:
            raise FormatError(f"{what} is missing")
        self._data, self._what, self._at = data, what, 0

    def text(self) -> str:
        try:
            return self._taken(self.int16()).decode()
        except UnicodeDecodeError as error:
            raise FormatError(f"{self._what} contains a text that is not UTF-8: {error}") from None

    def int16(self) -> int:
        return self._number(">h")

    def int32(self) -> int:
        return self._number(">i")

    def int64(self) -> int:
        return self._number(">q")

    def _number(self, layout: str) -> int:
        number: int = struct.unpack(layout, self._taken(struct.calcsize(layout)))[0]
        return number

    def _taken(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if count < 0 or len(taken) < count:
            raise FormatError(f"{self._what} is cut off: it has {len(self._data)} bytes")
        self._at += count
        return taken


def _versioned(value: bytes | None, what: str) -> _Reader:
    reader = _Reader(value, what)
    version = reader.int16()
    if version != _VERSION:
        raise FormatError(f"{what} has version {version}; only version {_VERSION} is supported")
    return reader


def check_offsets(
    offsets: Alterations, *, texts: Collection[str], has_partition: bool = False, is_read: bool = False
) -> None:
    """Check offsets; tombstones are always accepted.

    Args:
        texts: The keys of a source partition that hold text.
        has_partition: Whether it also holds the number of a partition.
        is_read: Whether the connector reads its offsets; if not, they must be 0.

    Raises:
        ConnectError: The first fault, with what is expected.
    """
    for items, offset in offsets.items():
        if offset is None:
            continue
        partition = dict(items)
        for key in texts:
            if not isinstance(partition.get(key), str):
                raise ConnectError(f"The source partition {partition} needs a text as '{key}'")
        if has_partition and not _is_number(partition.get(_PARTITION), _LARGEST):
            raise ConnectError(f"The source partition {partition} needs a partition number as '{_PARTITION}'")
        at = offset.get(_OFFSET)
        is_first = is_read and at == -1  # as a connector shows that nothing is copied yet
        if not (is_first or _is_number(at, (1 << 63) - 1 if is_read else 0)):
            expected = "a whole number, 0 or more," if is_read else "0, because it is not read,"
            raise ConnectError(f"The source offset {offset} of {partition} needs {expected} as '{_OFFSET}'")


def _is_number(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
