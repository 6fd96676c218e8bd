"""Records as columns for the producer, where they say more than topic, key and value."""

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.record import HeaderBytes

NO_PARTITION = -1
"""The client chooses a partition by the key."""
NOW = 0
"""The record's timestamp is the time at which the client takes it."""


class PlacedRecords(NamedTuple):
    """Columns of one length: timestamps are milliseconds since 1970, headers empty where a record has none."""

    topics: Sequence[str]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    partitions: Sequence[int]
    timestamps: Sequence[int]
    headers: Sequence[Sequence[HeaderBytes]]
