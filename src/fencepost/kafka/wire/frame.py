"""Encodes requests as frames and decodes answers from frames, for one connection.

A frame is its size, a header and a body. kafka-python makes all three. Two headers of one kind of request differ only
in the correlation id, which follows kind and version. So a header is made once, and then gets each id.
"""

import struct
import sys
from collections import deque
from collections.abc import Sequence
from io import BytesIO
from itertools import groupby
from typing import Any, NamedTuple

Data = bytes | bytearray | memoryview

_INT = struct.Struct(">i")
_HEAD = struct.Struct(">i4si")
"""The frame's size, kind and version, and the number."""
_NUMBER_AT, _NUMBER_ENDS = 4, 8  # in a header
_NUMBERS = 1 << 31
_MOST_FIRST_BYTES = 100_000_000  # of the first answer: a peer that speaks TLS, or HTTP, seems to announce more
_MOST_BYTES = (1 << 31) - 1
_LARGE_BYTES = 1 << 17  # of what is not copied once more: an answer gets its room at once, a request goes in pieces
_NOTHING_TAGGED = 0


class RequestKind(NamedTuple):
    """One version of one kind of request: its header without the number, and the class of its answers."""

    begin: bytes
    end: bytes
    answer: Any
    body_at: int
    """Where the body of an answer begins, unless there is something in its header that we do not know."""


class Frames:
    """Numbers requests, and finds the answers to them, which come in their order. Used by one thread at a time."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._kinds: dict[tuple[Any, int], RequestKind] = {}
        self._number = 0
        self._has_answered = False  # so that it is known to speak Kafka's protocol
        self._asked: deque[tuple[int, RequestKind]] = deque()
        self._arrived = bytearray()
        self._large: memoryview | None = None  # an answer that has begun, with room for all of it
        self._large_bytes = 0  # of it that have come

    def framed(self, request: Any, version: int, body: Sequence[Data] | None = None) -> list[Data]:
        """Return the frame of a request, or of one of its class with a given body, in few pieces with little copying.

        From now on its answer is due.
        """
        if body is None:
            body = (request.encode(version),)
        kind = self._kind(request, version)
        self._number = (self._number + 1) % _NUMBERS
        self._asked.append((self._number, kind))
        size = _NUMBER_ENDS + len(kind.end) + sum(map(len, body))
        return _gathered((_HEAD.pack(size, kind.begin, self._number), kind.end, *body))

    def room(self) -> memoryview | None:
        """Return the buffer for the next bytes of a large answer that has begun. After writing to it, call `filled`.

        None if no large answer has begun: pass the bytes to `answers`.
        """
        return None if self._large is None else self._large[self._large_bytes :]

    def filled(self, count: int) -> list[Any]:
        """Count the bytes that were written to `room`. Returns the answer if complete; raises as `answers` does."""
        assert self._large is not None
        self._large_bytes += count
        if self._large_bytes < len(self._large):
            return []
        frame, self._large = self._large, None
        return [self._answer(frame)]

    def answers(self, data: bytes) -> list[Any]:
        """Return the answers that `data` completes.

        Raises ValueError for bytes that are not an answer to the request, and kafka-python's errors for a damaged one.
        """
        self._arrived += data
        found: list[Any] = []
        at = 0
        while len(self._arrived) - at >= _INT.size:
            (size,) = _INT.unpack_from(self._arrived, at)
            if not _INT.size <= size <= (_MOST_BYTES if self._has_answered else _MOST_FIRST_BYTES):
                raise ValueError(f"an answer that claims to have {size} bytes")
            begin, end = at + _INT.size, at + _INT.size + size
            if end > len(self._arrived) and size < _LARGE_BYTES:
                break
            with memoryview(self._arrived)[begin:end] as come:
                if len(come) == size:
                    found.append(self._answer(memoryview(bytes(come))))
                else:
                    self._large, self._large_bytes = memoryview(bytearray(size)), len(come)
                    self._large[: len(come)] = come
            at = min(end, len(self._arrived))
        del self._arrived[:at]
        return found

    def _answer(self, frame: memoryview) -> Any:
        if not self._asked:
            raise ValueError("an answer without a request")
        expected, kind = self._asked.popleft()
        (number,) = _INT.unpack_from(frame)
        if number != expected:
            raise ValueError(f"answer {number} where {expected} is expected")
        self._has_answered = True
        body_at = kind.body_at
        if body_at > _INT.size and frame[_INT.size] != _NOTHING_TAGGED:
            header = BytesIO(frame)
            kind.answer.parse_header(header)
            body_at = header.tell()
        return kind.answer.decode(frame[body_at:])

    def _kind(self, request: Any, version: int) -> RequestKind:
        of = request if isinstance(request, type) else type(request)
        found = self._kinds.get((of, version))
        if found is None:
            found = self._kinds[of, version] = _kind(of, version, self._client_id)
        return found


def _gathered(buffers: Sequence[Data]) -> list[Data]:
    pieces: list[Data] = []
    for is_large, group in groupby(buffers, lambda buffer: len(buffer) >= _LARGE_BYTES):
        together = list(group)
        pieces += together if is_large else [b"".join(together)]
    return pieces


def _kind(of: Any, version: int, client_id: str) -> RequestKind:
    request = of(version=version)
    request.with_header(0, client_id)
    header = request.encode_header(flexible=of.flexible_version_q(version))
    # The library's register knows only the class of a version that was made last, by a weak reference. When two threads
    # make it at the same time, that one may be dropped: the register then fails until the process ends.
    answer = getattr(sys.modules[of.__module__], of.__name__.replace("Request", "Response"))[version]
    empty = answer()
    empty.with_header(0)
    body_at = len(empty.encode_header(flexible=answer.flexible_version_q(version)))
    return RequestKind(header[:_NUMBER_AT], header[_NUMBER_ENDS:], answer, body_at)
