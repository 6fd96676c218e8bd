"""One record on its way from a source to Kafka, or from Kafka to a sink."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from fencepost.record.schema import Schema


class Header(NamedTuple):
    """A record header; `value` is converted by the header converter."""

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
    """A partition of a topic."""

    topic: str
    partition: int


def place_names(places: Iterable[TopicPartition]) -> str:
    """Return partitions for a message, in order: `a-0, a-1`."""
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(places))


class ConnectRecord:
    """The common part of source and sink records: everything that a transform or a predicate may read and change.

    `timestamp` is milliseconds since 1970.
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

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed."""
        return replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class SourceRecord(ConnectRecord):
    """A record for `topic`, with the position in the outside system after it.

    `source_partition` and `source_offset` map strings to primitive values.
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

    `kafka_offset` is its offset there.
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

    def to(self, topic: str, **changes: Any) -> "SinkRecord":
        """Return a copy that goes to `topic`, in a partition by its key unless `changes` name a `kafka_partition`."""
        return replace(self, **{"topic": topic, "kafka_partition": None, **changes})

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
        )
