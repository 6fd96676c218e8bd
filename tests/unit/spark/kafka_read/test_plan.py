"""How ranges are cut, and how far a micro-batch goes."""

from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.value.position import LogRange
from fencepost.record import TopicPartition
from fencepost.spark.kafka_read.source import divide, limited

SIZES = st.lists(st.integers(0, 1_000), max_size=6)


def ranges(*sizes: int) -> list[LogRange]:
    return [LogRange(TopicPartition("t", n), 10 * n, 10 * n + size, "id") for n, size in enumerate(sizes)]


def test_empty_ranges_are_left_out_and_all_others_stay_whole() -> None:
    assert divide(ranges(5, 0, 7), None, None) == [ranges(5, 0, 7)[0], ranges(5, 0, 7)[2]]


def test_the_largest_ranges_are_cut() -> None:
    assert [each.size for each in divide(ranges(100, 10), 4, None)] == [33, 33, 34, 10]
    assert [each.size for each in divide(ranges(5, 5), 3, None)] in ([2, 3, 5], [5, 2, 3])


@given(SIZES, st.none() | st.integers(1, 50), st.none() | st.integers(1, 300))
def test_pieces_make_up_the_ranges(sizes: list[int], least: int | None, most: int | None) -> None:
    pieces = divide(ranges(*sizes), least, most)
    offsets = {place: [] for place in {each.place for each in pieces}}  # type: dict[TopicPartition, list[int]]
    for piece in pieces:
        offsets[piece.place] += range(piece.start, piece.end)
    assert offsets == {each.place: list(range(each.start, each.end)) for each in ranges(*sizes) if each.size}
    assert all(0 < piece.size <= (most or piece.size) for piece in pieces)
    assert len(pieces) >= min(least or 0, sum(sizes))


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=8), st.integers(1, 5_000))
def test_limit_is_divided_by_waiting_records_and_starves_no_partition(sizes: list[int], most: int) -> None:
    places = [TopicPartition("t", n) for n in range(len(sizes))]
    starts = dict.fromkeys(places, 7)
    ends = {place: 7 + size for place, size in zip(places, sizes, strict=True)}
    found = limited(starts, ends, most)
    taken = {place: found[place] - 7 for place in places}
    assert sum(taken.values()) <= most + len(places)
    assert all(0 < taken[place] <= size for place, size in zip(places, sizes, strict=True) if size)
    assert found == ends or sum(taken.values()) >= most - len(places)
