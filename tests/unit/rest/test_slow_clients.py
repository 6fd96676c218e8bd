"""Clients that send slowly, or nothing, or do not read: each is cut off, and others are answered meanwhile."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from fencepost.rest import Endpoint, RestServer, body, create_app, server
from fencepost.rest.connection import Connection
from fencepost.testing import eventually
from support.certificate import server_certificate

from .fake import FakeConnector, FakeWorker

SHORT_S = 1.0


@pytest.fixture
def running(worker: FakeWorker, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestServer]:
    """A server with short limits."""
    monkeypatch.setattr(Connection, "head_s", SHORT_S)
    monkeypatch.setattr(Connection, "stalled_s", SHORT_S)
    monkeypatch.setattr(body, "BODY_S", SHORT_S)
    made = RestServer(Endpoint(create_app(worker.operations), "127.0.0.1", 0))
    made.start()
    yield made
    made.stop(0)


def connected(running: RestServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", running.port), timeout=60)


def is_answered(running: RestServer) -> bool:
    def status() -> int | None:
        try:
            return httpx.get(f"http://127.0.0.1:{running.port}/connectors", timeout=60).status_code
        except httpx.TransportError:  # on a busy machine this client, too, may be slow
            return None

    return eventually(status, within_s=60) == 200


def is_cut_off(client: socket.socket) -> bool:
    """Read up to the end, however it comes."""
    try:
        while client.recv(65_536):
            pass
    except ConnectionError:
        pass
    return True


def drip(client: socket.socket, text: bytes) -> bool:
    """Send a byte at a time, slowly, until the connection is closed; False if it never is."""
    client.settimeout(SHORT_S / 10)
    try:
        for byte in text * 20:
            client.send(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                if not client.recv(65_536):
                    return True
    except OSError:
        return True
    return False


def test_a_client_that_sends_nothing_is_cut_off(running: RestServer) -> None:
    with closing(connected(running)) as client:
        assert is_answered(running)
        assert is_cut_off(client)


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_a_head_that_drips_is_cut_off_also_as_a_second_request(running: RestServer, first: bytes) -> None:
    with closing(connected(running)) as client:
        client.sendall(first)
        assert drip(client, b"X-Long: aaaaaaaaaaaaaaaaaaaaaaa\r\n") or is_cut_off(client)


def test_a_body_that_drips_is_refused_and_cut_off(running: RestServer, worker: FakeWorker) -> None:
    head = b"POST /connectors HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with closing(connected(running)) as client:
        client.sendall(head)
        drip(client, b"{" + b" " * 10)
        client.settimeout(60)
        assert is_cut_off(client)
    assert list(worker.connectors) == ["file"]


def test_a_body_that_nobody_reads_does_not_keep_a_connection(running: RestServer) -> None:
    head = b"PUT /connectors/file/pause HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    with closing(connected(running)) as client:
        client.sendall(head)
        assert client.recv(12).startswith(b"HTTP/1.1 202")
        assert drip(client, b" " * 40)


def test_a_client_that_does_not_read_its_answer_is_cut_off(running: RestServer, worker: FakeWorker) -> None:
    config: dict[str, str | None] = {"connector.class": "FileStreamSource", "text": "x" * 1_000_000}
    worker.connectors = {str(n): FakeConnector(config) for n in range(30)}
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with closing(client):
        client.connect(("127.0.0.1", running.port))
        client.sendall(b"GET /connectors?expand=info HTTP/1.1\r\nHost: x\r\n\r\n")
        eventually(lambda: _open_connections(running) == 0 or _raise(), within_s=60)


def _raise() -> bool:
    raise AssertionError("the connection is still open")


def _open_connections(running: RestServer) -> int:
    return sum(len(each.server_state.connections) for each in running._servers)


def test_a_tls_handshake_that_does_not_begin_is_cut_off(
    worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HANDSHAKE_S", SHORT_S)
    authority, context = server_certificate(tmp_path, "127.0.0.1")
    made = RestServer(Endpoint(create_app(worker.operations), "127.0.0.1", 0, context))
    made.start()
    with closing(connected(made)) as client:
        trusted = ssl.create_default_context(cafile=authority)
        assert httpx.get(f"https://127.0.0.1:{made.port}/", verify=trusted, timeout=60).status_code == 200
        assert is_cut_off(client)
    made.stop(0)


def test_connections_beyond_the_most_are_closed_and_room_is_made_again(
    running: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "most", 5)
    monkeypatch.setattr(Connection, "head_s", 60.0)
    with ExitStack() as stack:
        kept = [stack.enter_context(closing(connected(running))) for _ in range(5)]
        for client in kept:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(12).startswith(b"HTTP/1.1 200")
        assert is_cut_off(stack.enter_context(closing(connected(running))))
    eventually(lambda: _open_connections(running) == 0 or _raise(), within_s=60)
    assert is_answered(running)


def test_a_slow_request_is_no_slow_client(running: RestServer, worker: FakeWorker) -> None:
    worker.before_wait = lambda: threading.Event().wait(1.5 * SHORT_S) or None
    url = f"http://127.0.0.1:{running.port}"
    assert httpx.put(f"{url}/connectors/file/pause", timeout=60).status_code == 202
