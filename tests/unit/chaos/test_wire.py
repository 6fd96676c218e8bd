"""Whose request it is, as the matrix of faults reads it."""

import struct

import pytest

from support.chaos import wire
from support.proxy import ApiKey, Request


def init(client_id: str, transactional_id: str) -> Request:
    """An InitProducerId of version 1."""
    texts = (struct.pack(">h", len(text)) + text.encode() for text in (client_id, transactional_id))
    frame = struct.pack(">hhi", ApiKey.INIT_PRODUCER_ID, 1, 7) + b"".join(texts) + struct.pack(">i", 60_000)
    return Request(struct.pack(">i", len(frame)) + frame, 40_000)


@pytest.mark.parametrize(
    ("client_id", "transactional_id", "expected"),
    [("rdkafka", "group-c-0", True), ("fencepost", "group-c-0", False), ("rdkafka", "group-d-0", False)],
)
def test_fencing_request_is_not_mistaken_for_a_producer_start(
    client_id: str, transactional_id: str, expected: bool
) -> None:
    request = init(client_id, transactional_id)
    assert wire.inits_producer(request, ("group-c-0", "group-c-0#1")) is expected
