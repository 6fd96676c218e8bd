"""Reads requests of producers: who sent them, what they are for, and what the broker answered."""

import struct
from collections.abc import Sequence

from support.proxy import ApiKey, Matches, Request

_EPOCH_AND_ID = 10  # bytes between a transactional id and what EndTxn says of the outcome
_CLIENT_ID_AT = 12  # behind size, key, version and number
_LOCKOUT = b"\x00\x09fencepost"  # how `fencepost.kafka.wire.requests` calls itself
_FIRST_FLEXIBLE: dict[int, int] = {ApiKey.INIT_PRODUCER_ID: 2, ApiKey.END_TXN: 3}


def names(request: Request, text: str) -> bool:
    """Say whether the request has this string as a field, in either of Kafka's encodings."""
    encoded = text.encode()
    lengths = (len(encoded), len(encoded) + 1)  # plain, compact
    return any(bytes([length]) + encoded in request.frame for length in lengths)


def owner(request: Request, transactional_ids: Sequence[str]) -> str | None:
    """Return which of the ids the request is made in the name of."""
    return next((each for each in transactional_ids if names(request, each)), None)


def of(transactional_ids: Sequence[str], topic: str | None = None) -> Matches:
    """Match requests in the name of one of the ids; with `topic` those that name it too."""

    def matches(request: Request) -> bool:
        return owner(request, transactional_ids) is not None and (topic is None or names(request, topic))

    return matches


def inits_producer(request: Request, transactional_ids: Sequence[str]) -> bool:
    """Say whether a producer asks for one of the ids. Who locks one out, as a task does with its other, has none."""
    return owner(request, transactional_ids) is not None and not request.frame.startswith(_LOCKOUT, _CLIENT_ID_AT)


def is_commit(request: Request, transactional_ids: Sequence[str]) -> bool:
    """Say whether an EndTxn in the name of one of the ids asks for a commit."""
    name = owner(request, transactional_ids)
    if name is None:
        return False
    outcome = request.frame.index(name.encode()) + len(name.encode()) + _EPOCH_AND_ID
    return request.frame[outcome] == 1


def error_of(request: Request, answer: bytes) -> int | None:
    """Return the error code in an answer to InitProducerId or EndTxn, None of other requests."""
    first_flexible = _FIRST_FLEXIBLE.get(request.api_key)
    if first_flexible is None:
        return None
    version: int = struct.unpack_from(">h", request.frame, 6)[0]
    tags = 1 if version >= first_flexible else 0
    code: int = struct.unpack_from(">h", answer, 8 + tags + 4)[0]
    return code
