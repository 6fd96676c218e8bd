"""Headers of records as an Arrow column."""

from collections.abc import Sequence
from itertools import accumulate, chain

import pyarrow as pa

from fencepost.record import HeaderBytes

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_NONE = {type(None)}


def header_lists(headers: Sequence[Sequence[HeaderBytes] | None]) -> pa.Array:
    """Return the headers of records as lists of structs; null for a record without headers."""
    if set(map(type, headers)) <= _NONE:
        return pa.nulls(len(headers), pa.list_(HEADER))
    flat = list(chain.from_iterable(filter(None, headers)))
    entries = pa.StructArray.from_arrays(
        [pa.array([name for name, _ in flat], pa.string()), pa.array([value for _, value in flat], pa.binary())],
        fields=list(HEADER),
    )
    ends = list(accumulate((len(each) if each else 0 for each in headers), initial=0))
    starts = [start if each else None for start, each in zip(ends, headers, strict=False)]
    return pa.ListArray.from_arrays(pa.array([*starts, ends[-1]], pa.int32()), entries, type=pa.list_(HEADER))
