"""An offset of a consumer group. Importing this needs no client library."""

from typing import NamedTuple

FORGOTTEN = "forgotten"
"""The metadata of an offset that counts as deleted: a transaction can commit offsets but not delete them."""


class GroupOffset(NamedTuple):
    """The offset of the next record of a partition, and the metadata text that is committed with it (`metadata`)."""

    topic: str
    partition: int
    offset: int
    metadata: str = ""
