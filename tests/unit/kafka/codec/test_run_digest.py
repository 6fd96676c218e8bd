"""The digest of a run does not depend on how its records are divided."""

import itertools
import random

import pyarrow as pa
import pytest

from fencepost.kafka.codec.columns import PartitionColumns
from fencepost.kafka.codec.run_digest import BLOCK, DigestOfRun, RunDigest

ROWS = [
    (
        None if number % 7 == 3 else b"v%d" % number * (number % 5),
        b"k%d" % number if number % 3 else None,
        (("h", b"%d" % number),) if number % 11 == 0 else (),
    )
    for number in range(5 * BLOCK + 17)
]


def digest(rows, cuts=()) -> DigestOfRun:
    run = RunDigest()
    borders = [0, *sorted(cuts), len(rows)]
    for start, stop in itertools.pairwise(borders):
        part = rows[start:stop]
        keys = pa.array([key for _, key, _ in part], pa.binary())
        headers = [headers for *_, headers in part]
        run.add(
            PartitionColumns(
                pa.array([value for value, *_ in part], pa.binary()),
                keys if any(key is not None for _, key, _ in part) else None,
                headers=headers if any(headers) else None,
            )
        )
    return run.digest()


def test_digest_does_not_depend_on_the_division_of_records(seed):
    drawn = random.Random(seed)
    for _ in range(50):
        cuts = [drawn.randrange(len(ROWS)) for _ in range(drawn.randrange(20))]
        assert digest(ROWS, cuts) == digest(ROWS)


@pytest.mark.parametrize("at", [0, 1, BLOCK - 1, BLOCK, len(ROWS) - 1])
def test_any_change_of_a_record_changes_the_digest(at):
    value, key, headers = ROWS[at]
    whole = digest(ROWS)
    for other in (
        ((value or b"") + b"x", key, headers),
        (None if value is not None else b"", key, headers),
        (value, (key or b"") + b"x", headers),
        (value, None if key is not None else b"", headers),
        (value, key, (("h", None),)),
    ):
        assert digest([*ROWS[:at], other, *ROWS[at + 1 :]]) != whole


def test_bytes_that_move_between_records_change_the_digest():
    assert digest([(b"ab", None, ()), (b"c", None, ())]) != digest([(b"a", None, ()), (b"bc", None, ())])
    assert digest([(b"a", b"b", ())]) != digest([(b"ab", b"", ())])
    assert digest([(b"a", None, (("x", b"yz"),))]) != digest([(b"a", None, (("xy", b"z"),))])


def test_the_order_of_records_changes_the_digest():
    assert digest([(b"a", None, ()), (b"b", None, ())]) != digest([(b"b", None, ()), (b"a", None, ())])


def test_a_slice_of_an_array_has_the_digest_of_its_values():
    array = pa.array([b"a", b"b", b"c", b"d"], pa.binary())
    one, other = RunDigest(), RunDigest()
    one.add(PartitionColumns(array[1:3], array[2:4]))
    other.add(PartitionColumns(pa.array([b"b", b"c"], pa.binary()), pa.array([b"c", b"d"], pa.binary())))
    assert one.digest() == other.digest()


def test_blocks_with_records_that_were_skipped_have_no_checksum():
    run, whole = RunDigest(), digest(ROWS)
    values = pa.array([value for value, *_ in ROWS], pa.binary())
    run.add(PartitionColumns(values[: BLOCK + 1]))
    run.skip(3)
    run.add(PartitionColumns(values[BLOCK + 4 :]))
    assert run.digest().values == (whole.values[0], None, *whole.values[2:])
