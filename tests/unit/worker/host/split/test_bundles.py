"""Which splits share a transaction."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import Split
from fencepost.worker.host.split.task import bundles

MIB = 1 << 20


def split(number: int, size: int | None) -> Split:
    return Split({"file": number}, size_bytes=size)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([1, 1, 1], [[0, 1, 2]]),
        ([1, None, 1, 1], [[0], [1], [2, 3]]),
        ([1, 0, 1], [[0], [1], [2]]),
        ([40 * MIB, 40 * MIB, 1], [[0], [1, 2]]),
        ([1, 500 * MIB, 1], [[0], [1], [2]]),
        ([1] * 70, [list(range(64)), list(range(64, 70))]),
    ],
)
def test_small_neighbouring_splits_share_a_bundle(sizes: list[int | None], expected: list[list[int]]) -> None:
    found = bundles([split(n, size) for n, size in enumerate(sizes)], lambda _: True)
    assert [[s.partition["file"] for s in bundle] for bundle in found] == expected


def test_split_that_may_not_share_has_its_own_bundle() -> None:
    found = bundles([split(n, 1) for n in range(4)], lambda s: s.partition["file"] != 1)
    assert [[s.partition["file"] for s in bundle] for bundle in found] == [[0], [1], [2, 3]]


@given(st.lists(st.one_of(st.none(), st.integers(0, 80 * MIB)), max_size=100), st.sets(st.integers(0, 99)))
def test_bundles_contain_every_split_once_and_in_order(sizes: list[int | None], alone: set[int]) -> None:
    splits = [split(n, size) for n, size in enumerate(sizes)]
    found = list(bundles(splits, lambda s: s.partition["file"] not in alone))
    assert [s for bundle in found for s in bundle] == splits
    assert all(len(b) == 1 or sum(s.size_bytes or 0 for s in b) <= 64 * MIB for b in found)
    assert all(len(b) == 1 for b in found if alone & {s.partition["file"] for s in b})
