"""Dead letters and their resends as users see them: the bodies of `/connectors/C/dead-letters`, and their port."""

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
