"""Records ready for the producer, as columns."""

from collections.abc import Sequence
from dataclasses import dataclass

HeaderBytes = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Converted records, in order; a column that no record needs is None.

    `sources` are the indexes of the records in the polled batch (None: all of them, in order).
    """

    topics: Sequence[str]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    partitions: Sequence[int | None] | None = None
    timestamps: Sequence[int | None] | None = None
    headers: Sequence[Sequence[HeaderBytes]] | None = None
    sources: Sequence[int] | None = None

    @property
    def is_plain(self) -> bool:
        """True where a record is a topic, a value and perhaps a key."""
        if self.partitions is not None or self.timestamps is not None:
            return False
        return self.headers is None or not any(self.headers)

    def __len__(self) -> int:
        return len(self.values)
