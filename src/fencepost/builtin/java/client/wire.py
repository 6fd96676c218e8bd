"""Messages between Python and a host.

A message has two lengths (4 bytes each, big-endian), JSON of the first length and bytes of the second. The bytes are
buffers, each padded to 8 bytes; `buffers` in the JSON lists their names and lengths in order.
"""

import json
import socket
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

_LENGTHS = struct.Struct(">ii")


@dataclass(frozen=True)
class Message:
    """What was received. Buffers are in one block of memory, at multiples of 8 bytes."""

    head: dict[str, Any]
    buffers: Mapping[str, memoryview]


def send(connection: socket.socket, head: Mapping[str, Any], buffers: Iterable[tuple[str, Any]] = ()) -> None:
    """Send a message. Raises OSError."""
    listed = [(name, memoryview(buffer).cast("B")) for name, buffer in buffers]
    if listed:
        head = {**head, "buffers": [(name, len(view)) for name, view in listed]}
    parts: list[bytes | memoryview] = []
    for _, view in listed:
        parts += [view, b"\0" * (-len(view) % 8)]
    try:
        text = orjson.dumps(head)
    except TypeError:  # half of a character, such as in an offset that Java has written
        text = json.dumps(head).encode()
    parts.insert(0, _LENGTHS.pack(len(text), sum(map(len, parts))) + text)
    sent = connection.sendmsg(parts)  # one call, if the other side takes them all: each may wake it
    for part in parts:
        if sent < len(part):
            connection.sendall(memoryview(part)[sent:])
        sent = max(sent - len(part), 0)


def receive(connection: socket.socket) -> Message | None:
    """Return the next message; None if the other side has ended. Raises OSError, TimeoutError if it is late."""
    lengths = _exactly(connection, _LENGTHS.size)
    if lengths is None:
        return None
    json_bytes, size = _LENGTHS.unpack(lengths)
    text = _exactly(connection, json_bytes)
    data = b"" if size == 0 else _exactly(connection, size)
    if text is None or data is None:
        return None
    try:
        head: dict[str, Any] = orjson.loads(text)
    except orjson.JSONDecodeError:  # half of a character, which Java writes as it is
        head = json.loads(text)
    buffers, start, view = {}, 0, memoryview(data)
    for name, length in head.get("buffers", ()):
        buffers[name] = view[start : start + length]
        start += length + -length % 8
    return Message(head, buffers)


def _exactly(connection: socket.socket, count: int) -> bytearray | None:
    data = bytearray(count)
    view, read = memoryview(data), 0
    while read < count:
        got = connection.recv_into(view[read:])
        if got == 0:
            return None
        read += got
    return data
