"""An offset of a consumer group. Importing this needs no client library."""

from typing import NamedTuple

FORGOTTEN = "forgotten"
"""The metadata of an offset that counts as deleted: a transaction can commit offsets but not delete them."""


class GroupOffset(NamedTuple):
    """The offset of the next record of a partition, and what is committed with it.

    `metadata` is any text. `leader_epoch` is that of the record before the offset; -1 if it is not known.
    """

    topic: str
    partition: int
    offset: int
    metadata: str = ""
    leader_epoch: int = -1
