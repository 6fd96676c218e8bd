"""What our worker writes to its internal topics is what Kafka Connect 4.3.1 writes for the same connectors.

Keys and their partitions are compared byte for byte, values as JSON, per key in order; `masking` says what is left out.
"""

from typing import Any

import pytest
from accepted import KEYS_OURS_ALONE, KEYS_THEIRS_ALONE, VALUES_OURS_ALONE, VALUES_THEIRS_ALONE
from masking import Key, Values, is_counting, sequences, settled, without_repeats
from side import Side

pytestmark = pytest.mark.parametrize("topic", ["config", "offset", "status"])


def test_keys_and_partitions_are_the_same(connect: Side, ours: Side, topic: str) -> None:
    assert ours.topics[topic]["partitions"] == connect.topics[topic]["partitions"]
    theirs, own = set(sequences(connect.topics[topic])), set(sequences(ours.topics[topic]))
    assert {k for k in theirs - own if not k[1].startswith(tuple(KEYS_THEIRS_ALONE))} == set()
    assert {k for k in own - theirs if not k[1].startswith(tuple(KEYS_OURS_ALONE))} == set()


def test_each_key_takes_the_same_values_in_the_same_order(connect: Side, ours: Side, topic: str) -> None:
    theirs, own = sequences(connect.topics[topic]), sequences(ours.topics[topic])
    differences = {
        key: {"theirs": a, "ours": b}
        for key in sorted(theirs.keys() & own.keys())
        if (a := _compared(key, theirs[key], VALUES_THEIRS_ALONE)) != (b := _compared(key, own[key], VALUES_OURS_ALONE))
    }
    assert differences == {}


def _compared(key: Key, values: Values, alone: dict[str, tuple[Any, str]]) -> Values | str:
    """The values in the form in which the two sides are equal."""
    name = key[1]
    if is_counting(values):
        return "counts"  # how far depends on how long it ran
    if name.startswith("status-"):
        values = settled(values)
    if name in alone:
        left_out = alone[name][0]
        values = [v for v in values if v != left_out and (v is None or v.get("state") != left_out)]
    return without_repeats(values)
