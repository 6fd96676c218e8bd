"""What a member's group metadata says: the client hands it out as bytes, which are meant to be passed on as they are.

They begin with a mark, and the generation in four bytes, as this machine has them. Behind it stand the names of the
group and of the member, a byte that says whether its instance has no name, and that name where there is one; each name
ends with a zero (seen on confluent-kafka 2.16.1).
"""

import sys
from typing import NamedTuple

from fencepost.api.errors import FatalError

_MARK = b"CGMDv2:"
_NOT_JOINED = -1
_NAMES_AT = len(_MARK) + 4


class Committer(NamedTuple):
    """Who commits offsets to a group. Offsets of no member have a generation of -1, and its name is empty."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


def committer_of(metadata: bytes) -> Committer:
    """Return all that the bytes say. Raises FatalError for those of another form."""
    generation = generation_of(metadata)
    names = metadata[_NAMES_AT:].split(b"\0", 2)
    if len(names) < 3 or names[2][:1] not in (b"\0", b"\1"):
        raise _unknown_form()
    group_id, member_id, instance = names
    has_instance = instance[:1] == b"\0"
    return Committer(
        group_id.decode(),
        _NOT_JOINED if generation is None else generation,
        member_id.decode(),
        instance[1:].rstrip(b"\0").decode() if has_instance else None,
    )


class Membership(NamedTuple):
    """A member of a group, in one of its generations."""

    generation: int
    member_id: str


def generation_of(metadata: bytes) -> int | None:
    """Return the generation of the group; None for who has not joined one.

    Raises FatalError for bytes of another form: nobody must take what it cannot read for a fence.
    """
    if not metadata.startswith(_MARK) or len(metadata) < _NAMES_AT:
        raise _unknown_form()
    found = int.from_bytes(metadata[len(_MARK) : _NAMES_AT], sys.byteorder, signed=True)
    return None if found == _NOT_JOINED else found


def _unknown_form() -> FatalError:
    return FatalError("the client's group metadata has a form that is not known: confluent-kafka is too new for this")
