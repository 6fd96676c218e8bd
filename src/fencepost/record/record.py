"""One record on its way from a source to Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from fencepost.record.schema import Schema


class Header(NamedTuple):
    """A record header; `value` is converted by the header converter."""

    key: str
    value: Any
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record for `topic`, with the position in the outside system that it brings the task to.

    `source_partition` and `source_offset` map strings to primitive values. `timestamp` is milliseconds since 1970.
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

    def replace(self, **changes: Any) -> "SourceRecord":
        """Return a copy with some fields changed."""
        return replace(self, **changes)
