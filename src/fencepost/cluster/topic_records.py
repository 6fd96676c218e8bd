"""Records of topics as users see them: the bodies of `/topics` and `/topics/T/records`, and their port."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol

from pydantic import ConfigDict, Field

from fencepost.cluster.dead_letters import ShownBytes, ShownHeader

EARLIEST, LATEST = "earliest", "latest"
"""Where a page may begin, beside offsets and times: at the first records, or so that it has the last ones."""

_PRESENT = ConfigDict(json_schema_serialization_defaults_required=True)


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """A topic of the workers' Kafka."""

    name: str
    partitions: int


@dataclass(frozen=True, slots=True)
class ShownRecord:
    """A record, with the beginnings of what is long. A converter's values are shown as JSON."""

    __pydantic_config__ = _PRESENT

    partition: int
    offset: int
    timestamp_ms: int | None
    key: ShownBytes | None
    value: ShownBytes | None
    headers: Annotated[Sequence[ShownHeader], Field(description="The first ones.")]
    fault: Annotated[
        str | None, Field(description="Why a converter cannot read the key or the value; the bytes are shown then.")
    ] = None


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Committed records, the oldest first."""

    topic: str
    partitions: int
    records: Sequence[ShownRecord]
    next: Annotated[str, Field(description="For `from` of the next request, which has what comes after these.")]


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """Which records.

    `start`: `earliest`, `latest`, an offset, a time in ISO 8601, or the `next` of an earlier answer.
    """

    start: str = LATEST
    limit: int = 10
    partition: int | None = None


class TopicOperations(Protocol):
    """Topics and their records. Any worker answers, with what Kafka has now."""

    def topics(self) -> Sequence[TopicEntry]:
        """Return the topics of the workers' Kafka that are not closed to connectors, by name."""

    def records(self, topic: str, query: RecordQuery) -> RecordPage:
        """Return records of a topic of the workers' Kafka, read by the worker's own principal and converters.

        NotFoundError if there is no such topic; BadRequestError if it is closed, or `start` is not understood.
        """

    def records_of(self, connector: str, topic: str, query: RecordQuery) -> RecordPage:
        """Return records of a topic that a connector reads or writes, where and as the connector does.

        NotFoundError if there is no such connector or topic; BadRequestError also if the topic is none of its own.
        """
