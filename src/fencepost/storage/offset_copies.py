"""Copies offsets of connectors with their own offsets topic to the worker's offsets topic (KIP-618).

A connector continues from the copies if it loses its own topic, and for partitions that its own topic does not have. So
a tombstone must be acknowledged here before it is committed there (E7). Other records are copied afterwards, and their
copy may fail.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.kafka.produce.writer import RecordWriter


class OffsetCopy(NamedTuple):
    """A record of the worker's topic. `timestamp_ms` is the time at which its original was written; `merge` uses it."""

    key: bytes
    value: bytes | None
    timestamp_ms: int

    def to_json(self) -> list[str | int | None]:
        return [self.key.decode(), None if self.value is None else self.value.decode(), self.timestamp_ms]

    @classmethod
    def from_json(cls, data: Sequence[str | int | None]) -> "OffsetCopy":
        """Return the copy that `to_json` encoded."""
        key, value, timestamp_ms = data
        return cls(str(key).encode(), None if value is None else str(value).encode(), int(timestamp_ms or 0))


class _Batch:
    def __init__(self) -> None:
        self.copies: list[OffsetCopy] = []
        self.is_done = False
        self.error: Exception | None = None


class OffsetCopies:
    """Writes copies with the worker's principal, in the order of the calls. Waiting calls share one write.

    Thread-safe. Connects with the first write.
    """

    def __init__(self, conf: Mapping[str, Any], topic: str) -> None:
        self._writer = RecordWriter(conf, topic)
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._next = _Batch()

    def write(self, copies: Sequence[OffsetCopy], timeout_s: float) -> None:
        """Write copies; return when all in-sync replicas have acknowledged them. Errors: see `RecordWriter.write`."""
        if not copies:
            return
        with self._lock:
            batch = self._next
            batch.copies.extend(copies)
        with self._turn:
            if not batch.is_done:
                with self._lock:
                    self._next = _Batch()
                self._carry_out(batch, timeout_s)
        if batch.error is not None:
            raise batch.error

    def _carry_out(self, batch: _Batch, timeout_s: float) -> None:
        try:
            self._writer.write(batch.copies, timeout_s)
        except Exception as error:
            batch.error = error
        finally:
            batch.is_done = True

    def close(self) -> None:
        self._writer.close()
