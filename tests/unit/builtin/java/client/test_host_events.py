"""What a host tells of itself, without one."""

import socket
from collections.abc import Iterator

import pytest

from fencepost.builtin.java.client import line
from fencepost.builtin.java.client.line import Events
from fencepost.telemetry.event_ring import event_of
from fencepost.testing import eventually


@pytest.fixture
def host() -> Iterator[tuple[socket.socket, Events]]:
    """Return the host's end of a connection, and what listens at ours."""
    ours, theirs = socket.socketpair()
    events = Events(ours, "host of a test")
    with theirs:
        yield theirs, events
        events.close()


def test_line_of_a_java_task_has_its_connector_and_task(
    host: tuple[socket.socket, Events], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "io.debezium.Test")
    said = {"event": "log", "level": "INFO", "logger": "io.debezium.Test", "owner": "orders-0", "message": "streaming"}
    line.send(host[0], {**said, "subject": {"connector": "orders", "task": 0}})
    line.send(host[0], {**said, "subject": None, "owner": None, "message": "nobody's"})
    eventually(lambda: len(caplog.records) == 2, within_s=60)
    of_task, of_nobody = caplog.records
    assert of_task.getMessage() == "orders-0: streaming"
    assert (event_of(of_task, "orders").task, of_task.__dict__["connector"]) == (0, "orders")
    assert "connector" not in of_nobody.__dict__


def test_the_newest_metrics_of_a_session_are_kept_until_it_ends(host: tuple[socket.socket, Events]) -> None:
    connection, events = host
    events.measure(1)
    assert events.figures(1) == []
    for value in (1.0, 2.0):
        line.send(connection, {"event": "figures", "session": 1, "rows": [["seen", "", value]]})
    eventually(lambda: events.figures(1) == [["seen", "", 2.0]], within_s=60)
    events.forget(1)
    events.measure(2)
    line.send(connection, {"event": "figures", "session": 1, "rows": [["seen", "", 3.0]]})  # it was late
    line.send(connection, {"event": "figures", "session": 2, "rows": [["other", "", 4.0]]})
    eventually(lambda: events.figures(2) == [["other", "", 4.0]], within_s=60)
    assert events.figures(1) == []
