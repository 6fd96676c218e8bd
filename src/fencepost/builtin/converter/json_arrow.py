"""JSON of whole Arrow columns, without a Python object for a value."""

from binascii import b2a_base64
from collections.abc import Sequence
from typing import Any

import orjson

from fencepost.record import BinaryColumn
from fencepost.record.binary_column import bytes_of, constant
from fencepost.record.java_value import big_integer

NULL = b"null"
QUOTE, ESCAPE = b'"', b"\\"
FIRST_PRINTABLE = 0x20
_FIRST_NOT_ASCII = 0x80
_SHORT = 18


def quoted(texts: Any, end: bytes = b"") -> Any:
    """Return texts that need no escapes as bytes of JSON, with `end` before the closing quote."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = texts.cast(pa.binary())
    joined = pc.binary_join_element_wise(constant(QUOTE), values, constant(end + QUOTE), constant(b""))
    return pc.fill_null(joined, constant(NULL))


def is_plain(texts: Any) -> bool:
    """Return whether an array of text is UTF-8 in which JSON escapes nothing."""
    data = bytes_of(texts)
    if not len(data):
        return True
    low, high = _span(data)
    text = bytes(memoryview(data))
    if low < FIRST_PRINTABLE or QUOTE in text or ESCAPE in text:
        return False
    return high < _FIRST_NOT_ASCII or _is_utf8(texts)


def written(column: Any) -> Any | None:
    """Return each value of an array as JSON, in an array of bytes; None for a type or values that orjson must write."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return pc.fill_null(column.cast(pa.string()).cast(pa.binary()), constant(NULL))
    if _is_text(kind) and is_plain(column):
        return quoted(column)
    if pa.types.is_float64(kind):
        return pa.array(orjson.dumps(column.to_pylist())[1:-1].split(b",") if len(column) else [], pa.binary())
    return None


def bare(column: Any) -> tuple[Any | None, bytes]:
    """Return what `written` does, without the quotes of texts, which come second, where each value has them."""
    import pyarrow as pa

    if _is_text(column.type) and not column.null_count:
        return (column.cast(pa.binary()), QUOTE) if is_plain(column) else (None, b"")
    return written(column), b""


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_short_decimal(kind: Any) -> bool:
    """Return whether an Arrow type is that of decimals whose digits are 64-bit integers."""
    import pyarrow as pa

    return bool(pa.types.is_decimal128(kind)) and kind.precision <= _SHORT


def quoted_decimals(column: Any) -> Any:
    """Return short decimals as Connect's JSON has them: their digits as a BigInteger's bytes, in Base64."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = memoryview(column.buffers()[1]).cast("B").cast("q")[: 2 * (column.offset + len(column))]
    numbers = words[2 * column.offset :: 2].tolist()
    texts = {each: b'"%s"' % b2a_base64(big_integer(each), newline=False) for each in set(numbers)}
    found = pa.array([texts[each] for each in numbers], pa.binary())
    return pc.if_else(column.is_valid(), found, constant(NULL)) if column.null_count else found


def joined(pieces: Sequence[Any]) -> BinaryColumn:
    """Return for each row all its pieces, one after the other: arrays of bytes, of which one at least, and scalars."""
    import pyarrow.compute as pc

    return BinaryColumn(pc.binary_join_element_wise(*pieces, constant(b"")))


def _span(data: Any) -> tuple[int, int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    low, high = pc.min_max(pa.Array.from_buffers(pa.uint8(), len(data), [None, data])).values()
    return low.as_py(), high.as_py()


def _is_utf8(texts: Any) -> bool:
    """Return whether all bytes of an array of text are UTF-8; Arrow does not check that."""
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
