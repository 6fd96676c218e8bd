"""A record as the envelope makes it: without a position in the source."""

from typing import Any, NamedTuple

from fencepost.api import Header, Schema


class Event(NamedTuple):
    """A record without its position; a tombstone has neither value nor value schema."""

    topic: str
    key_schema: Schema | None
    key: Any
    value_schema: Schema | None
    value: Any
    headers: tuple[Header, ...] = ()
