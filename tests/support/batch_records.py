"""Random records: nulls, empty and large values, headers, extreme timestamps."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from hypothesis import strategies as st

from fencepost.kafka.codec.columns import rows
from fencepost.kafka.codec.encode import Rows
from support.slow_batch import Kept, PlainRecord

_LENGTHS = (0, 1, 2, 60, 61, 62, 63, 64, 65, 127, 128, 8_100, 8_191, 8_192, 16_383, 16_384)
_LARGE = 300_000
_NOW = 1_750_000_000_000

_NAMES = st.sampled_from(("", "h", "name", "ü→", "long " * 15))


def _filled(length: int) -> bytes:
    return bytes(range(256)) * (length // 256) + bytes(length % 256)


_ANY_BYTES = st.one_of(st.binary(max_size=20), st.sampled_from(_LENGTHS).map(_filled))
_VALUES = st.one_of(st.none(), _ANY_BYTES, st.integers(0, 60).map(lambda i: _filled(_LARGE + i) if i > 58 else b"v"))
_TIMES = st.one_of(
    st.just(_NOW),
    st.integers(_NOW - 5_000, _NOW + 5_000),
    st.sampled_from((0, 1, _NOW - 8_192, _NOW + 8_191, _NOW + 16_384, 2**48, 2**62)),
)
_HEADERS = st.lists(st.tuples(_NAMES, st.one_of(st.none(), st.binary(max_size=70))), max_size=3).map(tuple)


_FIRST = st.sampled_from((-1, 0, _NOW, -(2**61), 2**61))
_WILD = st.one_of(_TIMES, st.sampled_from((-1, -_NOW, -(2**62), 2**62)), st.integers(-(2**62), 2**62))
_STEPS = st.one_of(st.just(1), st.integers(1, 300), st.sampled_from((64, 8_192, 2**20, 2**27)))
_LOG_APPEND_TIME, _TRANSACTIONAL, _DELETE_HORIZON = 0x08, 0x10, 0x40
_FLAGS = (0, _LOG_APPEND_TIME, _TRANSACTIONAL, _DELETE_HORIZON, _DELETE_HORIZON | _LOG_APPEND_TIME)


def drawn_records(max_size: int = 80) -> st.SearchStrategy[list[PlainRecord]]:
    """Draw records. A column may be the same, or missing, in all of them: that goes other ways."""

    def columns(kinds: tuple[int, int, int, int]) -> st.SearchStrategy[list[PlainRecord]]:
        key, value, time, headers = kinds
        one = st.builds(
            PlainRecord,
            (st.none(), st.one_of(st.none(), _ANY_BYTES), st.just(b"key"))[key],
            (_VALUES, st.just(b"v" * 100), st.binary(max_size=3))[value],
            (st.just(_NOW), _TIMES, st.integers(_NOW, _NOW + 50))[time],
            (st.just(()), _HEADERS, st.just((("h", b"1"),)))[headers],
        )
        return st.lists(one, min_size=1, max_size=max_size)

    return st.tuples(*[st.integers(0, 2)] * 4).flatmap(columns)


class DrawnBatch(NamedTuple):
    """The contents of a broker's batch: arguments of `kept_batch`, except for the offset of its first record."""

    kept: list[Kept]
    first: int
    newest: int
    attributes: int


def drawn_batch() -> st.SearchStrategy[DrawnBatch]:
    """Draw a batch with gaps, with times before 1970 and none (-1), and with any of the flags that records have."""

    def spread(records: list[PlainRecord]) -> st.SearchStrategy[list[Kept]]:
        count = len(records)
        drawn = st.tuples(st.lists(_STEPS, min_size=count, max_size=count), st.lists(_WILD, min_size=1))
        return drawn.map(lambda both: _spread(records, *both))

    return st.builds(DrawnBatch, drawn_records(12).flatmap(spread), _FIRST, _WILD, st.sampled_from(_FLAGS))


def _spread(records: Sequence[PlainRecord], steps: Sequence[int], times: Sequence[int]) -> list[Kept]:
    placed = zip(accumulate(steps), records, strict=True)
    return [Kept(at, each._replace(timestamp=times[at % len(times)])) for at, each in placed]


def rows_of(records: Sequence[PlainRecord]) -> Rows:
    """Return records as columns."""
    return rows(
        [record.value for record in records],
        now_ms=0,
        keys=[record.key for record in records],
        timestamps=[record.timestamp for record in records],
        headers=[record.headers for record in records],
    )
