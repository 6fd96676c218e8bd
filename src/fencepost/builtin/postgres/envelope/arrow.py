"""Whole columns of Postgres' text to values by Arrow. What Arrow cannot read, such as infinity, is converted singly."""

from collections.abc import Callable
from typing import Any

from fencepost.record.type_table import MOST_DIGITS

ConvertColumn = Callable[[Any], Any]
"""A function from an Arrow array of texts to one of values; it returns None if they have to be converted singly."""

_UNITS = {0: "s", 3: "ms", 6: "us"}


def booleans(texts: Any) -> Any:
    """Return columns of `t` and `f` as booleans."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.equal(texts, pa.scalar("t", pa.string()))


def cast_to(*names: str) -> ConvertColumn:
    """Return the function that casts texts to Arrow's types of these names, one after the other."""

    def cast(texts: Any) -> Any:
        import pyarrow as pa

        return _cast(texts, *map(pa.type_for_alias, names))

    return cast


def decimals_of(precision: int, scale: int) -> ConvertColumn | None:
    """Return the function to decimals; None for those that Arrow does not have."""

    def cast(texts: Any) -> Any:
        import pyarrow as pa

        return _cast(texts, pa.decimal128(precision, scale))

    return cast if 0 <= scale <= precision <= MOST_DIGITS else None


def _cast(texts: Any, *kinds: Any) -> Any:
    import pyarrow as pa

    try:
        for kind in kinds:
            texts = texts.cast(kind)
    except pa.ArrowInvalid:
        return None
    return texts


def utc_times(digits: int) -> ConvertColumn | None:
    """Return the function from timestamps in UTC, with a number of decimals, to ISO 8601."""
    unit = _UNITS.get(digits)
    return None if unit is None else lambda texts: _iso(texts, unit)


def _iso(texts: Any, unit: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    text = pa.string()
    if pc.all(pc.ends_with(texts, "+00")).as_py() is False:
        return None
    times = _cast(pc.utf8_slice_codeunits(texts, 0, -3), pa.timestamp(unit))
    if times is None:
        return None
    written = pc.utf8_replace_slice(times.cast(text), 10, 11, "T")
    return pc.binary_join_element_wise(written, pa.scalar("Z", text), pa.scalar("", text))
