"""A member of a group that another thread makes leave it."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.kafka.read.assignment import Fetcher
from fencepost.kafka.read.group_input import GroupInput


class Watched(Fetcher):
    """Does something while it reads ahead, and knows whether it is closed meanwhile."""

    def __init__(self, does: Callable[[], object]) -> None:
        self._does = does
        self.is_closed = threading.Event()
        self.closed_inside: bool | None = None

    def chunks(self, timeout_s: float, most: int) -> Any:
        raise NotImplementedError

    known_ends = seek = stop = resume = let_go = chunks  # type: ignore[assignment]

    def close(self) -> None:
        self.is_closed.set()

    def read_ahead(self, most: int) -> None:
        self._does()
        self.closed_inside = self.is_closed.wait(0.5)


@pytest.fixture
def member() -> tuple[GroupInput, Watched]:
    leaving = threading.Thread(target=lambda: input_.abandon())
    fetcher = Watched(leaving.start)
    conf = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "reconnect.backoff.ms": 10_000}
    input_ = GroupInput(conf, ["t"], Any, fetcher=lambda _: fetcher)  # type: ignore[arg-type]
    input_._client.close = lambda **_: None  # type: ignore[method-assign]
    return input_, fetcher


def test_a_member_does_not_leave_in_the_middle_of_reading_ahead(member: tuple[GroupInput, Watched]) -> None:
    """The other thread would drop records while this one adds some, and leave connections open."""
    input_, fetcher = member
    input_.read_ahead(1)
    assert fetcher.closed_inside is False
    assert fetcher.is_closed.wait(60)


def test_reading_ahead_does_not_wait_while_a_member_leaves(member: tuple[GroupInput, Watched]) -> None:
    input_, fetcher = member
    reading = threading.Thread(target=input_.read_ahead, args=(1,))
    with input_._in_client:
        reading.start()
        reading.join(60)
        assert not reading.is_alive()
    assert fetcher.closed_inside is None
    input_.close()
