"""Many ask, few reads: and none of them misses what was written before it was asked for."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fencepost.storage.offset_topic import SharedRead
from fencepost.testing import eventually


class Log:
    """Counts reads; a read returns what was written when it began, once it is let go."""

    def __init__(self) -> None:
        self.written = 0
        self.reads = 0
        self.may_end = threading.Semaphore(0)

    def read(self, timeout_s: float) -> int:
        self.reads += 1
        seen = self.written
        assert self.may_end.acquire(timeout=60)
        return seen


def test_calls_during_a_read_share_the_next_read() -> None:
    log = Log()
    shared = SharedRead(log.read)
    with ThreadPoolExecutor(12) as pool:
        first = pool.submit(shared, 1.0)
        eventually(lambda: log.reads == 1)
        log.written = 1
        late = [pool.submit(shared, 1.0) for _ in range(10)]
        eventually(lambda: shared._next is not None)
        log.may_end.release(100)
        assert first.result(60) == 0
        assert [each.result(60) for each in late] == [1] * 10
    assert 2 <= log.reads <= 11


def test_read_error_reaches_all_callers_and_the_next_call_reads_again() -> None:
    outcomes = iter([ValueError("away"), None])

    def read(timeout_s: float) -> str:
        outcome = next(outcomes)
        if outcome is not None:
            raise outcome
        return "there"

    shared = SharedRead(read)
    with pytest.raises(ValueError, match="away"):
        shared(1.0)
    assert shared(1.0) == "there"


def test_no_call_gets_a_read_that_began_before_it() -> None:
    """Writers write, then read: each must see its own."""
    lock = threading.Lock()
    written: set[int] = set()

    def read(timeout_s: float) -> frozenset[int]:
        with lock:
            return frozenset(written)

    shared = SharedRead(read)

    def write_and_read(number: int) -> bool:
        with lock:
            written.add(number)
        return number in shared(1.0)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(write_and_read, range(2000)))
