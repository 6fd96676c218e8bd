"""Where a group's offsets are, and what a record of them says; whole batches are read in the conformance tests."""

import struct

import pytest

from fencepost.kafka.group import contributors
from fencepost.kafka.group.contributors import Contributor
from fencepost.kafka.group.group_offsets import Committed
from fencepost.record import TopicPartition


def _hash(text: str) -> int:
    """As Java's String.hashCode is defined."""
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    found = sum(unit * 31 ** (len(units) - 1 - index) for index, unit in enumerate(units)) % 2**32
    return found - 2**32 if found >= 2**31 else found


@pytest.mark.parametrize("group", ["", "a", "connect-C", "a group of many letters, so that it overflows", "ü€😀"])
def test_offsets_partition_of_a_group_is_chosen_as_by_the_coordinator(group):
    assert contributors.partition_of(group, 50) == abs(_hash(group)) % 50


def test_group_with_javas_smallest_hash_is_in_the_first_partition():
    assert _hash("polygenelubricants") == -(2**31)
    assert contributors.partition_of("polygenelubricants", 50) == 0


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


@pytest.mark.parametrize(
    "value",
    [
        struct.pack(">hq", 1, 5) + _string("note\0") + struct.pack(">qq", 1, 2),
        struct.pack(">hq", 2, 5) + _string("note") + struct.pack(">q", 1),
        struct.pack(">hqi", 3, 5, -1) + _string("note") + struct.pack(">q", 1),
        struct.pack(">hqi", 4, 5, -1) + b"\x05note" + struct.pack(">q", 1) + b"\x00",
    ],
)
def test_an_offset_is_read_in_each_version_that_brokers_write(value):
    assert contributors.decode_committed(value) == Committed(5, "note")


def test_long_metadata_of_the_newest_version_is_read():
    note = b"x" * 300
    value = struct.pack(">hqi", 4, 5, -1) + b"\xad\x02" + note + struct.pack(">q", 1) + b"\x00"
    assert contributors.decode_committed(value) == Committed(5, note.decode())


def test_key_of_another_group_or_record_type_is_ignored():
    key = struct.pack(">h", 1) + _string("group") + _string("topic") + struct.pack(">i", 3)
    assert contributors.decode_place(key, b"group") == TopicPartition("topic", 3)
    assert contributors.decode_place(key, b"other") is None
    assert contributors.decode_place(struct.pack(">h", 2) + _string("group"), b"group") is None


@pytest.mark.parametrize(
    ("id_", "places", "family"),
    [
        ("app-3", [3], "app-"),
        ("app-1_3", [3], "app-1_"),
        ("app-03", [3], "app-"),
        ("app-3", [2], None),
        ("app-3", [3, 2], None),
        ("app-3", [], None),
        ("app", [3], None),
        ("3", [3], None),
        (None, [3], None),
    ],
)
def test_producer_of_one_partition_is_recognized_by_its_id_and_its_commits(id_, places, family):
    offsets = {TopicPartition("topic", number): 1 for number in places}
    assert Contributor(1, 0, offsets, id_).family == family


def test_own_task_never_counts_as_a_producer_of_one_partition():
    assert Contributor(1, 0, {TopicPartition("topic", 3): 1}, "cluster-C-3", is_ours=True).family is None
