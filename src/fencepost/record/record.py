"""One record on its way from a source to Kafka, or from Kafka to a sink.

Source partitions are compared as JSON: to Python, 1, 1.0 and True are equal; in the offsets topic and in Kafka Connect
they are three values.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, NamedTuple, Self, TypedDict, Unpack

from fencepost.record.schema import Schema

PartitionKey = tuple[tuple[str, Any], ...]


class AppendTime(int):
    """A timestamp that the broker has set as it appended the record (`message.timestamp.type=LogAppendTime`)."""

    __slots__ = ()


class Header(NamedTuple):
    """A record header; `value` is converted by the header converter.

    >>> from fencepost.api import Header, SourceRecord
    >>> record = SourceRecord({"feed": "a"}, {"n": 1}, "prices", headers=(Header("trace", "x1"),))
    >>> record.headers[0].key
    'trace'
    """

    key: str
    value: Any
    schema: Schema | None = None


class ReadHeader(Header):
    """A header that keeps the bytes from which it was read. If it is not changed, they are written again."""

    raw: bytes | None

    @classmethod
    def of(cls, header: Header, raw: bytes | None) -> "ReadHeader":
        made = cls(*header)
        made.raw = raw
        return made


class TopicPartition(NamedTuple):
    """A partition of a topic. Its text is as Kafka prints it.

    >>> from fencepost.api import TopicPartition
    >>> str(TopicPartition("orders", 0))
    'orders-0'
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def place_names(places: Iterable[TopicPartition]) -> str:
    """Return partitions for a message, in order: `a-0, a-1`."""
    return ", ".join(map(str, sorted(places)))


class Changes(TypedDict, total=False):
    """The fields that `ConnectRecord.replace` changes."""

    topic: str
    value: Any
    value_schema: Schema | None
    key: Any
    key_schema: Schema | None
    kafka_partition: int | None
    timestamp: int | None
    headers: tuple[Header, ...]


class ConnectRecord:
    """The common part of source and sink records: everything that a transform or a predicate may read and change.

    `timestamp` is milliseconds since 1970.

    >>> from fencepost.api import ConnectRecord, SinkRecord
    >>> def routed(record: ConnectRecord) -> ConnectRecord:
    ...     return record.replace(topic=f"all-{record.topic}")
    >>> routed(SinkRecord("orders", 0, 17, "v")).topic
    'all-orders'
    """

    __slots__ = ()

    topic: str
    value: Any
    value_schema: Schema | None
    key: Any
    key_schema: Schema | None
    kafka_partition: int | None
    timestamp: int | None
    headers: tuple[Header, ...]

    @property
    def origin(self) -> str:
        """Return where the record comes from, without its content: for errors and logs."""
        raise NotImplementedError

    @property
    def described(self) -> str:
        """Return the record as `errors.log.include.messages` shows it: its position and time, in Connect's words."""
        raise NotImplementedError

    def with_key(self, schema: Schema | None, key: Any) -> Self:
        """Return a copy with another key. It does not use `replace`, which takes three times as long a record."""
        raise NotImplementedError

    def with_value(self, schema: Schema | None, value: Any) -> Self:
        """Return a copy with another value."""
        raise NotImplementedError

    def replace(self, **changes: Unpack[Changes]) -> Self:
        """Return a copy with some fields changed. The fields are those of `Changes`, for either kind of record."""
        return replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class SourceRecord(ConnectRecord):
    """A record for `topic`, with the position in the outside system after it.

    `source_partition` and `source_offset` map strings to primitive values.

    >>> from fencepost.api import SourceRecord
    >>> record = SourceRecord({"file": "a.txt"}, {"line": 3}, "lines", "the third line", key="a.txt")
    >>> record.origin
    "topic lines, source partition {'file': 'a.txt'}, source offset {'line': 3}"
    """

    source_partition: Mapping[str, Any]
    source_offset: Mapping[str, Any] | None
    topic: str
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    kafka_partition: int | None = None
    timestamp: int | None = None
    headers: tuple[Header, ...] = field(default=())

    @property
    def origin(self) -> str:
        """Return where the record comes from and where it goes."""
        return f"topic {self.topic}, source partition {self.source_partition}, source offset {self.source_offset}"

    @property
    def described(self) -> str:
        return (
            f"source record is = {{topic='{self.topic}', partition={self.source_partition}, "
            f"offset={self.source_offset}, timestamp={self.timestamp}}}"
        )

    def with_key(self, schema: Schema | None, key: Any) -> "SourceRecord":
        return SourceRecord(
            self.source_partition,
            self.source_offset,
            self.topic,
            self.value,
            self.value_schema,
            key,
            schema,
            self.kafka_partition,
            self.timestamp,
            self.headers,
        )

    def with_value(self, schema: Schema | None, value: Any) -> "SourceRecord":
        return SourceRecord(
            self.source_partition,
            self.source_offset,
            self.topic,
            value,
            schema,
            self.key,
            self.key_schema,
            self.kafka_partition,
            self.timestamp,
            self.headers,
        )


@dataclass(frozen=True, slots=True)
class SinkRecord(ConnectRecord):
    """A record of a topic. A transform may change `topic` and `kafka_partition`; `at` says where it was read.

    `kafka_offset` is its offset there. `as_read` is the record before converters and transforms, of bytes, if it may
    become a dead letter.

    >>> from fencepost.api import SinkRecord, TopicPartition
    >>> record = SinkRecord("orders", 0, 17, {"total": 9}, at=TopicPartition("orders", 0))
    >>> record.to("totals", value=record.value["total"]).value
    9
    """

    topic: str
    kafka_partition: int | None
    kafka_offset: int
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    timestamp: int | None = None
    headers: tuple[Header, ...] = field(default=())
    at: TopicPartition | None = None
    as_read: "SinkRecord | None" = field(default=None, compare=False, repr=False)

    def to(
        self,
        topic: str,
        *,
        value: Any = ...,
        value_schema: Schema | EllipsisType | None = ...,
        key: Any = ...,
        key_schema: Schema | EllipsisType | None = ...,
        kafka_partition: int | None = None,
        timestamp: int | EllipsisType | None = ...,
        headers: tuple[Header, ...] | EllipsisType = ...,
    ) -> "SinkRecord":
        """Return a copy that goes to `topic`, in a partition by its key unless `kafka_partition` names one.

        What is left out stays as it is.
        """
        changes: dict[str, Any] = {
            "value": value,
            "value_schema": value_schema,
            "key": key,
            "key_schema": key_schema,
            "timestamp": timestamp,
            "headers": headers,
        }
        given = {name: change for name, change in changes.items() if change is not ...}
        return replace(self, topic=topic, kafka_partition=kafka_partition, **given)

    @property
    def origin(self) -> str:
        """Return where the record was read."""
        topic, partition = self.at or (self.topic, self.kafka_partition)
        return f"topic {topic}, partition {partition}, offset {self.kafka_offset}"

    @property
    def described(self) -> str:
        topic, partition = self.at or (self.topic, self.kafka_partition)
        return (
            f"consumed record is {{topic='{topic}', partition={partition}, offset={self.kafka_offset}, "
            f"timestamp={self.timestamp}}}"
        )

    def with_key(self, schema: Schema | None, key: Any) -> "SinkRecord":
        return SinkRecord(
            self.topic,
            self.kafka_partition,
            self.kafka_offset,
            self.value,
            self.value_schema,
            key,
            schema,
            self.timestamp,
            self.headers,
            self.at,
            self.as_read,
        )

    def with_value(self, schema: Schema | None, value: Any) -> "SinkRecord":
        return SinkRecord(
            self.topic,
            self.kafka_partition,
            self.kafka_offset,
            value,
            schema,
            self.key,
            self.key_schema,
            self.timestamp,
            self.headers,
            self.at,
            self.as_read,
        )


class _Key(tuple[tuple[str, Any], ...]):
    """The sorted items of a source partition. Equal to a key or a plain tuple with the same values and types."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and tuple.__eq__(self, other) and _kinds(self) == _kinds(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def partition_key(partition: Mapping[str, Any]) -> PartitionKey:
    """Return a source partition as a hashable key: its sorted items.

    >>> from fencepost.api import partition_key
    >>> partition_key({"table": "orders", "shard": 1})
    (('shard', 1), ('table', 'orders'))
    >>> partition_key({"shard": 1}) == partition_key({"shard": 1.0})
    False
    """
    return _Key(sorted(partition.items()))


def is_same(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Say whether two source offsets, or two source partitions, are equal as JSON."""
    if one is None or other is None:
        return one is other
    return partition_key(one) == partition_key(other)


def _kinds(items: PartitionKey) -> list[object]:
    return [_kind(value) for _, value in items]


def _kind(value: Any) -> object:
    if value is True or value is False:
        return bool
    if isinstance(value, float):
        return float.__repr__(value)  # -0.0 differs from 0.0
    return int if isinstance(value, int) else None
