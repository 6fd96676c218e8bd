"""The gate before a worker: open, refusing, silent."""

import socket
from collections.abc import Iterator

import pytest

from support.chaos.gate import Closed, Gate


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def gate(server: socket.socket) -> Iterator[Gate]:
    with Gate(server.getsockname()[1]) as running:
        yield running


def through(gate: Gate, server: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection(("127.0.0.1", gate.port), 60)
    server.settimeout(60)
    answering, _ = server.accept()
    answering.settimeout(60)
    return client, answering


def test_open_gate_passes_data_and_closes_in_both_directions(gate, server):
    client, answering = through(gate, server)
    client.sendall(b"question")
    assert answering.recv(100) == b"question"
    answering.sendall(b"answer")
    assert client.recv(100) == b"answer"
    answering.close()
    assert client.recv(100) == b""
    client.close()


def test_refusing_gate_resets_open_and_new_connections(gate, server):
    client, answering = through(gate, server)
    gate.close(Closed.REFUSING)
    with pytest.raises(ConnectionResetError):
        client.recv(100)
    with pytest.raises(ConnectionResetError), socket.create_connection(("127.0.0.1", gate.port), 60) as late:
        late.recv(100)
    gate.open()
    for end in (*through(gate, server), client, answering):
        end.close()


def test_silent_gate_holds_bytes_until_it_opens(gate, server):
    client, answering = through(gate, server)
    gate.close(Closed.SILENT)
    client.sendall(b"late")
    answering.settimeout(0.1)
    with pytest.raises(TimeoutError):
        answering.recv(100)
    gate.open()
    answering.settimeout(60)
    assert answering.recv(100) == b"late"
    for end in (client, answering):
        end.close()
