"""Records as a test draws them: nulls, empty and large values, headers, wild times."""

from collections.abc import Sequence

from hypothesis import strategies as st

from fencepost.kafka.batch.encode import Rows
from fencepost.kafka.batch.encode_rows import rows
from support.slow_batch import PlainRecord

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


def rows_of(records: Sequence[PlainRecord]) -> Rows:
    """Return records as columns."""
    return rows(
        [record.value for record in records],
        now_ms=0,
        keys=[record.key for record in records],
        timestamps=[record.timestamp for record in records],
        headers=[record.headers for record in records],
    )
