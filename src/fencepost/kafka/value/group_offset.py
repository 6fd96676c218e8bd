"""An offset of a consumer group, as who commits it speaks of it; no client's library is needed for that."""

from typing import NamedTuple

FORGOTTEN = "forgotten"
"""The note of an offset that counts as none: a transaction commits offsets, and can take none away."""


class GroupOffset(NamedTuple):
    """The offset of the next record of a partition, and a note that is kept with it."""

    topic: str
    partition: int
    offset: int
    note: str = ""
