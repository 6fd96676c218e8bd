"""A feed of a chaos test: if it fails, the test fails."""

import errno
import threading
from collections.abc import Sequence

import pytest

from fencepost.testing import eventually
from support.chaos.progress import Feeder
from support.feed import Feed

FULL = OSError(errno.ENOSPC, "No space left on device")


def test_failed_feed_raises_in_the_next_call_or_stop() -> None:
    failed = threading.Event()

    def write(numbers: Sequence[int]) -> bool:
        if numbers[0] > 1:
            failed.set()
            raise FULL
        return True

    feed = Feed(write, block=10, per_s=10_000)
    assert failed.wait(60)
    with pytest.raises(AssertionError, match="No space left on device"):
        feed.stop()
    with pytest.raises(AssertionError, match="No space left on device"):
        _ = feed.sent


def test_failed_load_feeder_fails_the_run() -> None:
    class FullLoad:
        is_asked = False

        def feed(self, count: int) -> None:
            self.is_asked = True
            raise FULL

    load = FullLoad()
    with pytest.raises(AssertionError, match="No space left on device"), Feeder([load], 100):  # type: ignore[list-item]
        eventually(lambda: load.is_asked)


def test_feed_writes_missing_records_again() -> None:
    asked: list[int] = []

    def write(numbers: Sequence[int]) -> bool:
        asked.append(numbers[0])
        return len(asked) > 2

    feed = Feed(write, block=5, per_s=10_000)
    eventually(lambda: feed.sent >= 10)
    assert feed.stop() % 5 == 0
    assert asked[:4] == [1, 1, 1, 6]
