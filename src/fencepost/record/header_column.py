"""Headers as bytes, which become `Header` objects only if they are read."""

from collections.abc import Sequence
from typing import overload

from fencepost.record.record import Header
from fencepost.record.schema import BYTES

HeaderBytes = tuple[str, bytes | None]

_OPTIONAL_BYTES = BYTES.optional()


class HeaderColumn(Sequence[tuple[Header, ...]]):
    """The headers of records, one entry for each. If headers are sent as bytes, `raw` goes to Kafka unchanged.

    >>> from fencepost.api import HeaderColumn
    >>> HeaderColumn([[("trace", b"x1")], []])[0][0].value
    b'x1'
    """

    __slots__ = ("raw",)

    def __init__(self, raw: Sequence[Sequence[HeaderBytes]]) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw)

    @overload
    def __getitem__(self, index: int) -> tuple[Header, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> "HeaderColumn": ...
    def __getitem__(self, index: int | slice) -> "tuple[Header, ...] | HeaderColumn":
        if isinstance(index, slice):
            return HeaderColumn(self.raw[index])
        return tuple(Header(key, value, _OPTIONAL_BYTES) for key, value in self.raw[index])
