"""The client for requests at a server that closes connections, and what waiting threads get after an interruption."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace

import pytest

from fencepost.kafka.errors import KafkaUnavailableError
from fencepost.kafka.group import group_admin
from fencepost.kafka.group.group_admin import Group, GroupAdmin
from fencepost.kafka.wire.requests import RequestClient


@contextmanager
def hanging_up() -> Iterator[tuple[str, list[int]]]:
    """Yield the address of a server that closes every connection, as a proxy without a broker does, and its clients."""
    came: list[int] = []

    def serve() -> None:
        while True:
            try:
                connection, (_, port) = server.accept()
            except OSError:
                return
            came.append(port)
            connection.close()

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}", came
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_a_server_that_closes_connections_is_called_again_and_less_and_less_often() -> None:
    """Nothing was sent but what precedes any request, so the request may still be sent."""
    with hanging_up() as (address, came), closing(RequestClient({"bootstrap.servers": address}, timeout_s=3)) as client:
        with pytest.raises(KafkaUnavailableError, match="while asking"):
            client.run("asking", client.brokers)
    assert 1 < len(came) < 20


def test_an_interrupted_request_leaves_no_older_answer_for_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """At one moment: a thread that came while another asked takes the result of that."""
    other, own = (Group(name, "Stable", ()) for name in ("other", "own"))
    answers: list[Group | BaseException] = [other, KeyboardInterrupt(), own]

    def run(*_: object) -> Group:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(RequestClient, "run", run)
    monkeypatch.setattr(group_admin, "time", SimpleNamespace(monotonic=lambda: 1.0))
    admin = GroupAdmin({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=1)
    assert admin.describe("other") == other
    with pytest.raises(KeyboardInterrupt):
        admin.describe("own")
    assert admin.describe("own") == own
