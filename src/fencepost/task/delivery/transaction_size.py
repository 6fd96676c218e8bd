"""How large a task's transactions may be so that each ends before the broker times it out.

How fast records reach the cluster is unknown until some have. So transactions begin small enough for slow links, and
grow as long as they are quick. One that took half of its timeout makes the next ones smaller; one that timed out makes
them much smaller.
"""

import threading

_FIRST_BYTES = 8 << 20
_MOST_BYTES = 64 << 20
_LEAST_BYTES = 64 << 10  # if one of this size does not finish in time, size is not the cause
_QUICK, _SLOW, _LATE = 1 / 6, 1 / 2, 4 / 5  # parts of the transaction timeout
_SMALLER = 4


class TransactionSize:
    """Learns from ended transactions how large the next ones may be. For any thread."""

    def __init__(self, timeout_s: float) -> None:
        """`timeout_s`: how long a transaction may take, from the producer's `transaction.timeout.ms`."""
        self.timeout_s = timeout_s
        self._lock = threading.Lock()
        self._limit_bytes = _FIRST_BYTES
        self._is_at_end = False

    @property
    def limit_bytes(self) -> int:
        """Return roughly how many bytes a transaction may have."""
        return self._limit_bytes

    @property
    def is_at_end(self) -> bool:
        """Say whether the last timed-out transaction could not be smaller, or a smaller one would not help."""
        return self._is_at_end

    def committed(self, size_bytes: int, took_s: float) -> None:
        """Learn from a transaction that was committed after `took_s`."""
        with self._lock:
            self._is_at_end = False
            if took_s >= _SLOW * self.timeout_s:
                self._shrink_to(min(size_bytes, self._limit_bytes) // 2)
            elif took_s <= _QUICK * self.timeout_s and 2 * size_bytes >= self._limit_bytes:
                self._limit_bytes = min(2 * self._limit_bytes, _MOST_BYTES)

    def failed(self, size_bytes: int, took_s: float) -> bool:
        """Learn from a transaction that failed; returns whether it may have timed out."""
        with self._lock:
            before = self._limit_bytes
            is_late = took_s >= _LATE * self.timeout_s
            if is_late:
                self._is_at_end = size_bytes > 2 * before or min(size_bytes, before) <= _LEAST_BYTES
                self._shrink_to(min(size_bytes, before) // _SMALLER)
            return is_late

    def _shrink_to(self, size_bytes: int) -> None:
        self._limit_bytes = max(_LEAST_BYTES, min(self._limit_bytes, size_bytes))
