"""Records of topics and dead letters as users see them: the bodies of `/topics`, `/topics/T/records` and
`/connectors/C/dead-letters`, and the ports that answer them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import ConfigDict, Field, WithJsonSchema

COUNTING, SENDING = "counting", "sending"
RUNNING = (COUNTING, SENDING)
"""The states of a resend that has not ended."""

_PRESENT = ConfigDict(json_schema_serialization_defaults_required=True)
_Any = Annotated[Any, WithJsonSchema({})]


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """A key, a value, or a value of a header: text if it is UTF-8, else base64."""

    text: str
    is_base64: bool
    size_bytes: Annotated[int, Field(description="Of all of it.")]
    is_cut: Annotated[bool, Field(description="The text is only its beginning.")]


@dataclass(frozen=True, slots=True)
class ShownHeader:
    """A header of the record."""

    name: str
    value: ShownBytes | None


@dataclass(frozen=True, slots=True)
class LetterOrigin:
    """Where the record was: of a source's, its source partition and offset, and the topic it was to be written to."""

    topic: str | None
    partition: _Any
    offset: _Any
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class LetterError:
    """What failed, and why, without secrets."""

    stage: str | None
    class_name: Annotated[str | None, Field(description="The class that has refused the record.")]
    exception: str | None
    message: str | None
    stacktrace: str | None


@dataclass(frozen=True, slots=True)
class LetterContent:
    """The record as it was read."""

    key: ShownBytes | None
    value: ShownBytes | None
    headers: Annotated[Sequence[ShownHeader], Field(description="The first ones.")]


@dataclass(frozen=True, slots=True)
class ShownLetter:
    """A dead letter. `letter` is its place, such as `orders-dead-0@4`."""

    letter: str
    timestamp_ms: Annotated[int | None, Field(description="When it was written.")]
    task: int | None
    origin: LetterOrigin
    error: LetterError
    content: LetterContent
    is_handled: Annotated[bool, Field(description="It was sent again, or passed over for good.")]


@dataclass(frozen=True, slots=True)
class LetterPage:
    """Dead letters, the newest first."""

    __pydantic_config__ = _PRESENT

    topic: str
    letters: Sequence[ShownLetter]
    unnamed: Annotated[
        int, Field(description="Records met that do not say which connector they are of, and so are not shown.")
    ] = 0
    older: Annotated[str | None, Field(description="For `before` of the next request; null: there are no more.")] = None


@dataclass(frozen=True, slots=True)
class LetterQuery:
    """How many at most, and those before which place: an `older` of an earlier answer."""

    limit: int = 20
    before: str | None = None


@dataclass(frozen=True, slots=True)
class ResendRequest:
    """What to resend: single dead letters, or None for all that wait.

    `skip`: dead letters, and topics that they came from, that are passed over for good instead.
    """

    letters: Sequence[str] | None = None
    skip: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ResendProgressInfo:
    """The last resend of a connector that the leader has begun; it forgets it as it ends."""

    __pydantic_config__ = _PRESENT

    state: Annotated[
        str,
        WithJsonSchema({"enum": ["none", "counting", "sending", "done", "failed", "stopped"], "type": "string"}),
        Field(description="stopped: the leader has left, or the connector was deleted; the rest waits."),
    ]
    total: Annotated[int | None, Field(description="How many are to be sent; null: not counted yet.")] = None
    sent: int = 0
    skipped: Annotated[int, Field(description="How many are passed over for good.")] = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    error: str | None = None


class DeadLetterOperations(Protocol):
    """Dead letters of a connector. All raise NotFoundError for an unknown connector."""

    def read(self, name: str, query: LetterQuery) -> LetterPage:
        """Return dead letters that name this connector.

        BadRequestError if it has no dead letter topic, or `before` is no place; OperationError if Kafka refuses.
        """

    def resend(self, name: str, request: ResendRequest) -> ResendProgressInfo:
        """Begin to resend, and return at once.

        BadRequestError if this connector's cannot be resent; ConflictError while a resend of it is running.
        """

    def progress(self, name: str) -> ResendProgressInfo:
        """Return how far the last resend is; its state is `none` if there was none."""


EARLIEST, LATEST = "earliest", "latest"
"""Where a page may begin, beside offsets and times: at the first records, or so that it has the last ones."""


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
