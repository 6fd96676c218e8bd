"""Both ends of the channel, over loopback: signatures without clocks, and TLS that one silent caller does not stop."""

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.task.channel.client import SECRET_VARIABLE, ChannelClient, ChannelFailedError, ChannelRefusedError
from fencepost.testing import eventually
from fencepost.worker.channel import ChannelServer, ChannelTls
from support.no_exception import no_exceptions

SECRET = b"of the channel"
TLS = Path(__file__).parents[2] / "fixtures" / "channel"

# An executor whose clocks, both of them, are off.
_ELSEWHERE = """
import sys, time
wall, steady, off = time.time, time.monotonic, float(sys.argv[2])
time.time, time.monotonic = lambda: wall() + off, lambda: steady() + off
from fencepost.task.channel.client import ChannelClient
client = ChannelClient(sys.argv[1])
print([client.call("/say", {"n": n})["n"] for n in range(3)])
"""


@pytest.fixture
def server() -> Iterator[ChannelServer]:
    server = ChannelServer(SECRET)
    server.start({"/say": lambda body: body})
    yield server
    server.stop()


@pytest.mark.parametrize("off_s", [-3600, 45, 86_400])
def test_executor_with_a_wrong_clock_is_served(server: ChannelServer, off_s: int) -> None:
    called = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE, server.url, str(off_s)],
        env={**os.environ, SECRET_VARIABLE: SECRET.decode()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert called.stdout.strip() == "[0, 1, 2]", called.stderr


def test_caller_with_another_secret_is_refused_and_logged_once(
    server: ChannelServer, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = ChannelClient(server.url, b"another")
    for _ in range(3):
        with pytest.raises(ChannelRefusedError, match="wrong or missing signature"):
            stranger.call("/say", {})
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING] == [
        "channel: requests from 127.0.0.1 are refused: wrong or missing signature"
    ]


def test_silent_tls_connection_does_not_block_other_callers() -> None:
    certificate = TLS / "certificate.pem"
    server = ChannelServer(SECRET, tls=ChannelTls(str(certificate), str(TLS / "key.pem")))
    server.start({"/say": lambda body: body})
    host, port = server.url.removeprefix("https://").split(":")
    try:
        with socket.create_connection((host, int(port))):
            client = ChannelClient(server.url, SECRET, certificate.read_text())
            assert client.call("/say", {"n": 1}, timeout_s=60) == {"n": 1}
    finally:
        server.stop()


def test_connection_without_a_tls_handshake_in_time_is_closed() -> None:
    server = ChannelServer(SECRET, tls=ChannelTls(str(TLS / "certificate.pem"), str(TLS / "key.pem"), handshake_s=0.1))
    server.start({})
    host, port = server.url.removeprefix("https://").split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=60) as silent:
            eventually(lambda: silent.recv(1) == b"", within_s=60)
    finally:
        server.stop()


@pytest.mark.parametrize("error", no_exceptions(), ids=repr)
def test_base_exception_in_a_handler_is_sent_to_the_caller(error: BaseException) -> None:
    """A connector is asked here whether its split is unchanged. Without an answer the executor would ask again."""

    def fails(_: object) -> dict[str, object]:
        raise error

    server = ChannelServer(SECRET)
    server.start({"/fail": fails})
    try:
        with pytest.raises(ChannelFailedError, match=f"500.*{type(error).__name__}"):
            ChannelClient(server.url, SECRET).call("/fail", {})
    finally:
        server.stop()


@pytest.mark.parametrize("length", ["100000000000", "-1", "many"])
def test_body_of_an_unauthenticated_request_is_not_read(server: ChannelServer, length: str) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as stranger:
        stranger.sendall(f"POST /say HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        answer = b""
        while chunk := stranger.recv(4096):  # it ends, as the connection is closed
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 403")
