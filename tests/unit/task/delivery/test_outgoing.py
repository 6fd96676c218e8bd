"""How many records fit in what a producer holds back: the same for columns of Arrow's as for lists."""

from itertools import accumulate

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fencepost.record import BinaryColumn, Repeated
from fencepost.task.delivery.outgoing import OutgoingColumns

VALUES = st.lists(st.binary(max_size=5), max_size=9)


@given(values=VALUES, skipped=st.integers(0, 3), data=st.data(), room=st.integers(0, 30), has_headers=st.booleans())
def test_records_fit_up_to_the_first_that_exceeds_the_room(
    values: list[bytes], skipped: int, data: st.DataObject, room: int, has_headers: bool
) -> None:
    column = BinaryColumn(pa.array(values, pa.binary()))[skipped:]
    values = values[skipped:]
    most = data.draw(st.integers(0, len(values)))
    headers = Repeated((("ab", b"c"), ("d", None)), len(values)) if has_headers else None
    sizes = [len(value) + 4 * has_headers for value in values[:most]]
    running = list(accumulate(sizes, initial=0))
    count = max([each for each, size in enumerate(running) if size < room], default=0)
    for way in (values, column):
        outgoing = OutgoingColumns(["t"] * len(values), way, headers=headers)
        assert outgoing.fitting(most, room) == (count, running[count])
        assert outgoing.sizes(most) == sizes
