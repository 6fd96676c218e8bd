"""What a member's group metadata says: the client hands it out as bytes, which are meant to be passed on as they are.

They begin with a mark, and the generation in four bytes, as this machine has them (seen on confluent-kafka 2.16.1).
"""

import sys
from typing import NamedTuple

from fencepost.api.errors import FatalError

_MARK = b"CGMDv2:"
_NOT_JOINED = -1


class Membership(NamedTuple):
    """A member of a group, in one of its generations."""

    generation: int
    member_id: str


def generation_of(metadata: bytes) -> int | None:
    """Return the generation of the group; None for who has not joined one.

    Raises FatalError for bytes of another form: nobody must take what it cannot read for a fence.
    """
    if not metadata.startswith(_MARK) or len(metadata) < len(_MARK) + 4:
        raise FatalError(
            "the client's group metadata has a form that is not known: confluent-kafka is too new for this"
        )
    found = int.from_bytes(metadata[len(_MARK) : len(_MARK) + 4], sys.byteorder, signed=True)
    return None if found == _NOT_JOINED else found
