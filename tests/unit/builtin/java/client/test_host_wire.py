"""Messages between Python and a host, without one."""

import socket
import struct
import threading
from array import array
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.builtin.java.client import line


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@given(st.dictionaries(st.text(min_size=1), st.binary(max_size=50), max_size=5))
def test_message_arrives_unchanged(buffers: dict[str, bytes]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        line.send(ours, {"op": "poll", "n": 3}, buffers.items())
        found = line.receive(theirs)
    assert found is not None
    assert (found.head["op"], found.head["n"]) == ("poll", 3)
    assert {name: bytes(view) for name, view in found.buffers.items()} == buffers


def test_lone_surrogate_is_sent_unchanged(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    line.send(ours, {"offset": "\ud800"})
    found = line.receive(theirs)
    assert found is not None
    assert found.head == {"offset": "\ud800"}


def test_buffers_begin_at_multiples_of_eight(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    line.send(ours, {}, [("odd", b"abc"), ("numbers", array("q", [1, -2]))])
    found = line.receive(theirs)
    assert found is not None
    assert found.buffers["numbers"].cast("q").tolist() == [1, -2]


def test_a_large_message_arrives_in_pieces(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    large = bytes(range(256)) * 20_000
    sending = threading.Thread(target=line.send, args=(ours, {}, [("large", large)]))
    sending.start()
    found = line.receive(theirs)
    sending.join()
    assert found is not None
    assert found.buffers["large"] == large


@pytest.mark.parametrize("sent", [b"", b"\0\0", struct.pack(">ii", 2, 0) + b"{", struct.pack(">ii", 2, 8) + b"{}abc"])
def test_closed_connection_yields_no_message(ends: tuple[socket.socket, socket.socket], sent: bytes) -> None:
    ours, theirs = ends
    ours.sendall(sent)
    ours.close()
    assert line.receive(theirs) is None
