"""Log events as users see them: the body of `/connectors/C/logs`."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import orjson
from pydantic import ConfigDict, Field, TypeAdapter, WithJsonSchema

from fencepost.cluster.errors import BadRequestError

_PRESENT = ConfigDict(json_schema_serialization_defaults_required=True)


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What is asked for: events of a task, if one is given, of at least a level, after a cursor.

    Without a cursor, these are the newest. `wait_ms` is for how long to wait for the first of them.
    """

    task: int | None = None
    level: int = 0
    after: str | None = None
    wait_ms: int = 0
    limit: int = 500


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event about a connector or, with a number, about a task of it."""

    time: Annotated[str, Field(description="ISO 8601, UTC.")]
    level: str
    logger: str
    connector: str
    task: int | None
    message: str
    exception: str | None
    worker_id: str


@dataclass(frozen=True, slots=True)
class MissedEvents:
    """Events of a worker that are not in the answer."""

    worker_id: str
    reason: Annotated[
        str,
        WithJsonSchema({"enum": ["dropped", "restarted", "away"], "type": "string"}),
        Field(
            description="dropped: there were too many since the cursor. restarted: those before its end are gone. "
            "away: it did not answer; they come later if it lives."
        ),
    ]
    events: Annotated[int | None, Field(description="How many; null: unknown.")] = None


@dataclass(frozen=True, slots=True)
class LogEvents:
    """Events of all workers, the oldest first."""

    __pydantic_config__ = _PRESENT

    events: Sequence[LogEvent]
    cursor: Annotated[str, Field(description="For `after` of the next request.")]
    missed: Sequence[MissedEvents] = ()


@dataclass(frozen=True, slots=True)
class WorkersEvents:
    """The events of one worker with their numbers, as workers exchange them. `ring` changes when it restarts."""

    worker_id: str
    ring: str
    events: Sequence[tuple[int, LogEvent]]
    next: int
    dropped: int = 0


Position = tuple[str, Annotated[int, Field(ge=0, lt=1 << 63)]]
"""The ring of a worker, and the number of its next event."""

_POSITIONS = TypeAdapter(dict[str, Position])


def to_cursor(positions: Mapping[str, Position]) -> str:
    """Return the text of positions by worker."""
    return base64.urlsafe_b64encode(orjson.dumps(dict(positions))).decode().rstrip("=")


def from_cursor(text: str) -> dict[str, Position]:
    """Return the positions in a cursor. Raises BadRequestError."""
    try:
        return _POSITIONS.validate_json(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        raise BadRequestError("after: this is not the cursor of an earlier answer") from None
