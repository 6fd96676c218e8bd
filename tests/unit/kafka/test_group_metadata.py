"""Group metadata as the client has it."""

import struct

import pytest
from confluent_kafka import Consumer

from fencepost.api import FatalError
from fencepost.kafka.group_metadata import generation_of


def test_who_has_not_joined_has_no_generation() -> None:
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    assert generation_of(consumer.consumer_group_metadata()) is None
    consumer.close()


def test_the_generation_is_read() -> None:
    assert generation_of(b"CGMDv2:" + struct.pack("=i", 70_000) + b"g\x00m\x00\x01") == 70_000


@pytest.mark.parametrize("metadata", [b"", b"CGMDv2:\x01", b"CGMDv3:\x01\x00\x00\x00g\x00m\x00\x01"])
def test_what_cannot_be_read_is_no_generation(metadata: bytes) -> None:
    with pytest.raises(FatalError, match="form that is not known"):
        generation_of(metadata)
