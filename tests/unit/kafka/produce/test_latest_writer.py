"""The writer of latest values: a producer that is replaced writes nothing later than its successor."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.kafka.produce import writer
from fencepost.kafka.produce.writer import LatestWriter
from fencepost.testing import eventually


class Client:
    """A producer without a broker; one that `is_full` takes one record and refuses the next."""

    def __init__(self, is_full: bool) -> None:
        self.is_full = is_full
        self.purged: list[dict[str, bool]] = []
        self.queued: list[tuple[bytes, bytes | None]] = []

    def list_topics(self, *_: Any, **__: Any) -> None:
        return None

    def produce(self, topic: str, key: bytes, value: bytes | None, on_delivery: Callable[..., None]) -> None:
        if self.is_full and self.queued:
            raise BufferError("Local: Queue full")
        self.queued.append((key, value))

    def flush(self, timeout_s: float) -> int:
        return 0

    def purge(self, **what: bool) -> None:
        self.purged.append(what)


def test_a_producer_that_is_replaced_is_purged_and_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queue would be written with no time limit: a stale value could become the newest one of its key."""
    made: list[weakref.ref[Client]] = []
    purged_before_second: list[Any] = []

    def new_client(*_: Any, **__: Any) -> Client:
        if made:
            first = made[0]()
            purged_before_second.append(first is not None and first.purged)
        client = Client(is_full=not made)
        made.append(weakref.ref(client))
        return client

    monkeypatch.setattr(writer, "new_client", new_client)
    written = LatestWriter({"bootstrap.servers": "127.0.0.1:1"}, "t")
    written.put(b"k", b"1")
    written.put(b"l", b"1")
    written.start()
    try:
        assert written.flush(10.0)
        assert len(made) == 2
        assert purged_before_second == [[{"in_queue": True, "in_flight": True, "blocking": False}]]
        eventually(lambda: gc.collect() >= 0 and made[0]() is None)
        second = made[1]()
        assert second is not None
        assert second.queued == [(b"k", b"1"), (b"l", b"1")]
    finally:
        written.stop(1.0)
