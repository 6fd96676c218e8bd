"""Records as columns for the producer, with more than topic, key and value."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from fencepost.record import HeaderBytes

DeliveryCallback = Callable[[Any, Any], None]
"""Called with (error, message) when a record is delivered or has failed."""
NO_PARTITION = -1
"""The client chooses the partition by the key."""
NOW = -(1 << 63)
"""The record's timestamp is the time at which the client receives it."""


class PlacedRecords(NamedTuple):
    """Columns of equal length. Timestamps are milliseconds since 1970; a record without headers has an empty sequence.

    `callbacks` are called with (error, message), by the index of their record, when it is delivered or has failed.
    Successes are reported only if `delivery.report.only.error` is off.
    """

    topics: Sequence[str]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    partitions: Sequence[int]
    timestamps: Sequence[int]
    headers: Sequence[Sequence[HeaderBytes]]
    callbacks: Mapping[int, DeliveryCallback] = MappingProxyType({})

    def ensure_even(self) -> None:
        """Raise ValueError if columns differ in length: the rest of the longer ones would be silently dropped."""
        counts = {name: len(column) for name, column in self._asdict().items() if name != "callbacks"}
        if len(set(counts.values())) > 1:
            raise ValueError(f"columns of records differ in length: {counts}")
