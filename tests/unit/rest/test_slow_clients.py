"""Clients that send slowly, or nothing, or do not read: each is cut off, and others are answered meanwhile."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from fencepost.rest import Endpoint, RestServer, body, create_app
from fencepost.rest import server as acceptor
from fencepost.rest.server import Connection
from fencepost.testing import eventually
from support.certificate import server_certificate

from .fake import FakeConnector, FakeWorker

HOST = "127.0.0.1"
SHORT_S = 1.0


class Running(RestServer):
    """A server of one endpoint, by http or https."""

    def __init__(self, app: ASGIApp, authority: Path | None = None, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(Endpoint(app, HOST, 0, tls))
        self.trusted = None if authority is None else ssl.create_default_context(cafile=authority)

    @property
    def url(self) -> str:
        return f"{'http' if self.trusted is None else 'https'}://{HOST}:{self.port}"


@pytest.fixture(params=["http", "https"])
def running(
    worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Running]:
    """A server with short limits."""
    monkeypatch.setattr(Connection, "head_s", SHORT_S)
    monkeypatch.setattr(Connection, "stalled_s", SHORT_S)
    monkeypatch.setattr(body, "BODY_S", SHORT_S)
    monkeypatch.setattr(acceptor, "SHUTDOWN_S", SHORT_S)
    files = server_certificate(tmp_path, HOST) if request.param == "https" else ()
    made = Running(create_app(worker.operations), *files)
    made.start()
    yield made
    made.stop(0)


def connected(running: Running, *, has_small_buffer: bool = False) -> socket.socket:
    """Return a connection, after the handshake."""
    plain = socket.socket()
    if has_small_buffer:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.settimeout(60)
    plain.connect((HOST, running.port))
    return plain if running.trusted is None else running.trusted.wrap_socket(plain, server_hostname=HOST)


def begun(running: Running, request: bytes, answer: bytes, *, has_small_buffer: bool = False) -> socket.socket:
    """Return a connection on which a request has got the beginning of its answer. A client that is slow by itself, on a
    busy machine, is cut off before that, and connects again."""

    def answered() -> socket.socket | None:
        client = connected(running, has_small_buffer=has_small_buffer)
        with suppress(ConnectionError, ssl.SSLError):
            client.sendall(request)
            if client.recv(len(answer)) == answer:
                return client
        client.close()
        return None

    found = eventually(answered, within_s=60)
    assert found is not None
    return found


def is_answered(running: Running) -> bool:
    def status() -> int | None:
        try:
            return httpx.get(f"{running.url}/connectors", timeout=60, verify=running.trusted or True).status_code
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
            with suppress(TimeoutError):
                if not client.recv(65_536):
                    return True
    except OSError:
        return True
    return False


def test_a_client_that_sends_nothing_is_cut_off(running: Running) -> None:
    with closing(connected(running)) as client:
        assert is_answered(running)
        assert is_cut_off(client)


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
def test_slowly_sent_request_head_is_cut_off_on_new_and_kept_connections(running: Running, first: bytes) -> None:
    with closing(connected(running)) as client:
        with suppress(ConnectionError, ssl.SSLError):  # it was slow before it dripped
            client.sendall(first)
        assert drip(client, b"X-Long: aaaaaaaaaaaaaaaaaaaaaaa\r\n") or is_cut_off(client)


def test_slowly_sent_request_body_is_refused_and_cut_off(running: Running, worker: FakeWorker) -> None:
    head = b"POST /connectors HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    with closing(connected(running)) as client:
        with suppress(ConnectionError, ssl.SSLError):
            client.sendall(head)
        drip(client, b"{" + b" " * 10)
        client.settimeout(60)
        assert is_cut_off(client)
    assert list(worker.connectors) == ["file"]


def test_unread_request_body_does_not_keep_a_connection_open(running: Running) -> None:
    head = b"PUT /connectors/file/pause HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    with closing(begun(running, head, b"HTTP/1.1 202")) as client:
        assert drip(client, b" " * 40)


def test_a_client_that_does_not_read_its_answer_is_cut_off(
    running: Running, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in running._servers:
        monkeypatch.setattr(each.config, "timeout_keep_alive", SHORT_S)
    config: dict[str, str | None] = {"connector.class": "FileStreamSource", "text": "x" * 1_000_000}
    worker.connectors = {str(n): FakeConnector(config) for n in range(30)}
    head = b"GET /connectors?expand=info HTTP/1.1\r\nHost: x\r\n\r\n"
    with closing(begun(running, head, b"HTTP/1.1 200", has_small_buffer=True)):
        eventually(lambda: _open_connections(running) == 0 or _raise(), within_s=60)


def _raise() -> bool:
    raise AssertionError("the connection is still open")


def _open_connections(running: Running) -> int:
    return sum(len(each.server_state.connections) for each in running._servers)


def test_a_tls_handshake_that_does_not_begin_is_cut_off(
    worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_S", SHORT_S)
    made = Running(create_app(worker.operations), *server_certificate(tmp_path, HOST))
    made.start()
    with closing(socket.create_connection((HOST, made.port), timeout=60)) as client:
        assert is_answered(made)
        assert is_cut_off(client)
    made.stop(0)


def test_unfinished_handshakes_are_limited_and_hold_up_no_other_client(
    worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_S", 600.0)
    monkeypatch.setattr(acceptor, "MOST_HANDSHAKES", 8)
    made = Running(create_app(worker.operations), *server_certificate(tmp_path, HOST))
    made.start()
    with ExitStack() as stack:
        silent = [stack.enter_context(closing(_begun_handshake(made))) for _ in range(100)]
        assert is_answered(made)
        assert all(map(is_cut_off, silent[:90]))
        assert is_answered(made)
        for one in silent:
            one.close()
        assert is_answered(made)
    made.stop(0)


def _begun_handshake(running: Running) -> socket.socket:
    """Return a connection whose client sends the beginning of a handshake and nothing more."""
    client = socket.create_connection((HOST, running.port), timeout=60)
    client.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    return client


def test_connections_without_tls_that_come_together_are_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptor, "MOST_HANDSHAKES", 8)
    made: list[asyncio.BaseTransport] = []
    lost: list[Exception | None] = []

    class Kept(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            lost.append(exc)

    async def serve(listener: socket.socket) -> None:
        server = acceptor.Acceptor(listener, Kept, None)
        while len(made) < 50:
            await asyncio.sleep(0)
        await server.wait_closed()  # a connection is made a turn of the loop before its handshake ends
        server.close()
        assert not lost
        for transport in made:
            transport.close()

    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((HOST, 0), backlog=64))
        for _ in range(50):
            stack.enter_context(socket.create_connection(listener.getsockname()))
        asyncio.run(asyncio.wait_for(serve(listener), 60))


def test_a_slow_handshake_ends_while_another_address_begins_many(
    worker: FakeWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_S", 600.0)
    monkeypatch.setattr(acceptor, "MOST_HANDSHAKES", 8)
    made = Running(create_app(worker.operations), *server_certificate(tmp_path, HOST))
    made.start()
    with ExitStack() as stack:
        other = socket.create_connection((HOST, made.port), timeout=60, source_address=("127.0.0.2", 0))
        client = stack.enter_context(closing(other))
        silent = [stack.enter_context(closing(_begun_handshake(made))) for _ in range(100)]
        assert all(map(is_cut_off, silent[:90]))
        assert made.trusted is not None
        with made.trusted.wrap_socket(client, server_hostname=HOST) as trusted:
            trusted.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert trusted.recv(12) == b"HTTP/1.1 200"
    made.stop(0)


def test_connections_above_the_limit_are_closed_until_others_end(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "most", 5)
    monkeypatch.setattr(Connection, "head_s", 60.0)
    with ExitStack() as stack:
        kept = [stack.enter_context(closing(connected(running))) for _ in range(5)]
        for client in kept:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(12).startswith(b"HTTP/1.1 200")
        with suppress(ConnectionError, ssl.SSLError):  # in the handshake already, or after it
            assert is_cut_off(stack.enter_context(closing(connected(running))))
    eventually(lambda: _open_connections(running) == 0 or _raise(), within_s=60)
    assert is_answered(running)


def test_slow_request_does_not_cut_off_its_client(running: Running, worker: FakeWorker) -> None:
    worker.before_wait = lambda: threading.Event().wait(1.5 * SHORT_S) or None

    def status() -> int | None:
        try:
            url = f"{running.url}/connectors/file/pause"
            return httpx.put(url, timeout=60, verify=running.trusted or True).status_code
        except httpx.TransportError:  # a busy machine was slow to send it
            return None

    assert eventually(status, within_s=60) == 202
