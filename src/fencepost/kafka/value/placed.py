"""Records as columns for the producer, where they say more than topic, key and value."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from fencepost.record import HeaderBytes

DeliveryCallback = Callable[[Any, Any], None]
"""Called with (error, message) when a record was delivered, or was not."""
NO_PARTITION = -1
"""The client chooses a partition by the key."""
NOW = 0
"""The record's timestamp is the time at which the client takes it."""
EARLIEST = 1
"""The earliest timestamp that a record can have: the client takes 0, the first millisecond of 1970, for `NOW`."""


class PlacedRecords(NamedTuple):
    """Columns of one length: timestamps are milliseconds since 1970, headers empty where a record has none.

    `told` holds what is called with (error, message) when the records of these indexes were delivered; for successes
    only where `delivery.report.only.error` is off.
    """

    topics: Sequence[str]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None]
    partitions: Sequence[int]
    timestamps: Sequence[int]
    headers: Sequence[Sequence[HeaderBytes]]
    told: Mapping[int, DeliveryCallback] = MappingProxyType({})

    def ensure_even(self) -> None:
        """Raise ValueError where a column is shorter than another: what is beside it would be left out in silence."""
        counts = {name: len(column) for name, column in self._asdict().items() if name != "told"}
        if len(set(counts.values())) > 1:
            raise ValueError(f"columns of records differ in length: {counts}")
