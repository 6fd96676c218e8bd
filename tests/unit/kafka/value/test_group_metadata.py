"""Group metadata as the client has it."""

import struct
import sys

import pytest
from confluent_kafka import Consumer

from fencepost.api import FatalError
from fencepost.kafka.group.memberless import memberless
from fencepost.kafka.value.position import Committer, committer_of, generation_of


def test_consumer_that_has_not_joined_has_no_generation() -> None:
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    assert generation_of(consumer.consumer_group_metadata()) is None
    consumer.close()


def test_generation_is_read_from_group_metadata() -> None:
    assert generation_of(b"CGMDv2:" + struct.pack("=i", 70_000) + b"g\x00m\x00\x01") == 70_000


@pytest.mark.parametrize("metadata", [b"", b"CGMDv2:\x01", b"CGMDv3:\x01\x00\x00\x00g\x00m\x00\x01"])
def test_group_metadata_of_unknown_format_is_refused(metadata: bytes) -> None:
    with pytest.raises(FatalError, match="unknown format"):
        generation_of(metadata)


@pytest.mark.parametrize(
    ("behind_the_generation", "committer"),
    [
        (b"g\0m-1\0\1", Committer("g", 1, "m-1", None)),
        (b"g\0m-1\0\0i\0", Committer("g", 1, "m-1", "i")),
        (b"g\0\0\1", Committer("g", 1, "", None)),
    ],
)
def test_committer_is_read_from_group_metadata(behind_the_generation, committer):
    assert committer_of(b"CGMDv2:" + (1).to_bytes(4, sys.byteorder) + behind_the_generation) == committer


def test_committer_of_a_group_without_members_has_no_generation():
    assert committer_of(memberless("g")) == Committer("g", -1, "", None)


@pytest.mark.parametrize("metadata", [b"CGMDv2:\1\0\0\0", b"CGMDv2:\1\0\0\0g\0m", b"CGMDv2:\1\0\0\0g\0m\0\2"])
def test_truncated_group_metadata_is_refused(metadata):
    with pytest.raises(FatalError, match="unknown format"):
        committer_of(metadata)
