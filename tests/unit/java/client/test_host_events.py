"""What a host tells of itself, without one."""

import socket
from collections.abc import Iterator

import pytest

from fencepost.java.client import wire
from fencepost.java.client.events import Events
from fencepost.testing import eventually


@pytest.fixture
def host() -> Iterator[tuple[socket.socket, Events]]:
    """Return the host's end of a connection, and what listens at ours."""
    ours, theirs = socket.socketpair()
    events = Events(ours, "host of a test")
    with theirs:
        yield theirs, events
        events.close()


def test_the_newest_metrics_of_a_session_are_kept_until_it_ends(host: tuple[socket.socket, Events]) -> None:
    connection, events = host
    events.measure(1)
    assert events.figures(1) == []
    for value in (1.0, 2.0):
        wire.send(connection, {"event": "figures", "session": 1, "rows": [["seen", "", value]]})
    eventually(lambda: events.figures(1) == [["seen", "", 2.0]], within_s=60)
    events.forget(1)
    events.measure(2)
    wire.send(connection, {"event": "figures", "session": 1, "rows": [["seen", "", 3.0]]})  # it was late
    wire.send(connection, {"event": "figures", "session": 2, "rows": [["other", "", 4.0]]})
    eventually(lambda: events.figures(2) == [["other", "", 4.0]], within_s=60)
    assert events.figures(1) == []
