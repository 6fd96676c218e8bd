"""A source partition as a key: two of them are one exactly where the topic has one key for both."""

from typing import Any

import pytest

from fencepost.api import SourceRecord, partition_key
from fencepost.record import Batch

ONE, TRUE, FLOAT = {"p": 1}, {"p": True}, {"p": 1.0}


def test_last_offsets_distinguish_partitions_by_json_type() -> None:
    records = [SourceRecord(p, {"n": n}, "t", "v") for n, p in enumerate((ONE, TRUE, FLOAT, ONE))]
    [batch] = Batch.of_records(records)
    assert [(repr(p), o) for p, o in batch.last_offsets()] == [
        ("{'p': True}", {"n": 1}),
        ("{'p': 1.0}", {"n": 2}),
        ("{'p': 1}", {"n": 3}),
    ]


@pytest.mark.parametrize("other", [True, 1.0, "1", None, 2])
def test_partition_keys_differ_when_their_json_differs(other: Any) -> None:
    one, another = partition_key(ONE), partition_key({"p": other})
    assert one != another
    assert len({one, another}) == 2


def test_partition_key_distinguishes_negative_zero() -> None:
    assert partition_key({"p": 0.0}) != partition_key({"p": -0.0})


def test_plain_tuple_finds_only_the_key_with_the_same_types() -> None:
    offsets = {partition_key(TRUE): "true", partition_key(ONE): "one"}
    assert offsets[(("p", 1),)] == "one"
    assert offsets[(("p", True),)] == "true"
    assert (("p", 1.0),) not in offsets


def test_str_subclass_makes_the_same_partition_key() -> None:
    class Text(str):
        pass

    assert partition_key({"p": Text("a")}) == partition_key({"p": "a"})
