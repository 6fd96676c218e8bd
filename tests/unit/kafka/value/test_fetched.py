"""What was fetched: the same in runs and Arrow's columns as it is in lists."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.value.fetched import Fetched
from fencepost.record import BinaryColumn, Repeated, Runs, TopicPartition

PLACES = [TopicPartition("t", n) for n in range(3)]
LOTS = st.lists(st.tuples(st.sampled_from(PLACES), st.integers(1, 5), st.booleans()), max_size=6)


def column(values: list[bytes | None]) -> BinaryColumn:
    return BinaryColumn(pa.array(values, pa.binary()))


def lots_of(drawn: list[tuple[TopicPartition, int, bool]]) -> tuple[list[Fetched], Fetched]:
    """Return lots, in columns, and all that is in them, in lists."""
    chunks: list[Fetched] = []
    at = dict.fromkeys(PLACES, 0)
    whole = Fetched([], [], [], [], [], [])
    for place, count, has_more in drawn:
        offsets = list(range(at[place], at[place] + count))
        values: list[bytes | None] = [b"v" * offset if offset % 3 else None for offset in offsets]
        keys: list[bytes | None] = [b"k" if has_more else None] * count
        headers: Any = [[("h", b"x")]] * count if has_more else None
        own = column(keys) if has_more else Repeated(None, count)
        chunks.append(Fetched(Repeated(place, count), offsets, offsets, own, column(values), headers))
        at[place] += count + 1  # past a marker
        chunks[-1].ends, chunks[-1].epochs = {place: at[place]}, {place: (at[place], 1)}
        pieces: list[Any] = [[place] * count, offsets, offsets, keys, values, headers or [()] * count]
        for name, piece in zip(("places", "offsets", "timestamps", "keys", "values", "headers"), pieces, strict=True):
            getattr(whole, name).extend(piece)
        whole.ends, whole.epochs = {**whole.ends, **chunks[-1].ends}, {**whole.epochs, **chunks[-1].epochs}
    return chunks, whole


def listed(fetched: Fetched) -> list[Any]:
    columns = (fetched.places, fetched.offsets, fetched.timestamps, fetched.keys, fetched.values)
    headers = fetched.headers or [()] * len(fetched)
    return [*map(list, columns), [list(each) for each in headers], fetched.ends, fetched.epochs]


@given(drawn=LOTS)
def test_columns_of_fetched_chunks_are_joined_like_lists(drawn: list[tuple[TopicPartition, int, bool]]) -> None:
    chunks, whole = lots_of(drawn)
    found = Fetched.joined(chunks)
    assert listed(found) == listed(whole)
    assert found.first_offsets() == (whole.first_offsets() if drawn else {})
    assert found.next_offsets() == whole.next_offsets()
    for start in range(len(whole)):
        assert found.size_bytes(start, len(whole)) == whole.size_bytes(start, len(whole))
        assert listed(found.part(start, start + 2))[:6] == listed(whole.part(start, start + 2))[:6]
    if drawn:
        assert isinstance(found.places, Repeated | Runs)
        assert isinstance(found.values, BinaryColumn)
        assert isinstance(found.keys, BinaryColumn) is any(has_keys for _, _, has_keys in drawn)


@given(drawn=LOTS, gone=st.sets(st.sampled_from(PLACES)))
def test_records_stay_in_columns_when_some_partitions_are_removed(
    drawn: list[tuple[TopicPartition, int, bool]], gone: set[TopicPartition]
) -> None:
    chunks, whole = lots_of(drawn)
    found = Fetched.joined(chunks).without(gone)
    assert listed(found) == listed(whole.without(gone))
    assert isinstance(found.places, Repeated | Runs) or not len(found)


def test_end_without_records_is_kept_when_joined_with_records() -> None:
    end = Fetched(ends={PLACES[1]: 7}, epochs={PLACES[1]: (7, 2)})
    chunks, _ = lots_of([(PLACES[0], 2, False)])
    found = Fetched.joined([*chunks, end])
    assert found.ends == {PLACES[0]: 3, PLACES[1]: 7}
    assert isinstance(found.places, Repeated)
    assert Fetched.joined([end, end]).ends == {PLACES[1]: 7}
