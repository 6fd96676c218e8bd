"""Parses a member's group metadata, which the client returns as opaque bytes.

The bytes are: a magic prefix; the generation, in four bytes of this machine's byte order; the group id and the member
id; one byte, 0 if an instance id follows; the instance id, if there is one. Each id ends with a zero byte (seen on
confluent-kafka 2.16.1).
"""

import sys
from typing import NamedTuple

from fencepost.api.errors import FatalError

_MARK = b"CGMDv2:"
_NOT_JOINED = -1
_NAMES_AT = len(_MARK) + 4


class Committer(NamedTuple):
    """The identity that commits offsets to a group. Without a member, `generation` is -1 and `member_id` is empty."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


def committer_of(metadata: bytes) -> Committer:
    """Parse the whole metadata. Raises FatalError if the bytes have another format."""
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


class MemberGeneration(NamedTuple):
    """A member of a group, in one of its generations."""

    generation: int
    member_id: str


def generation_of(metadata: bytes) -> int | None:
    """Return the generation of the group; None if the member has not joined.

    Raises FatalError if the bytes have another format: metadata that cannot be parsed must not serve as a fence.
    """
    if not metadata.startswith(_MARK) or len(metadata) < _NAMES_AT:
        raise _unknown_form()
    found = int.from_bytes(metadata[len(_MARK) : _NAMES_AT], sys.byteorder, signed=True)
    return None if found == _NOT_JOINED else found


def _unknown_form() -> FatalError:
    return FatalError("the client's group metadata has an unknown format: install an older confluent-kafka")
