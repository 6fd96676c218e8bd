"""Transactional ids that are taken only to fence their holders: a request of a few bytes instead of a producer.

Kafka's own admin client does the same (`fenceProducers`): InitProducerId that names no producer. The coordinator
answers once the newer epoch is in its log and nothing of the older one's transaction is left. A producer asks for the
same, and costs three connections, four threads and five times the processor time.
"""

import logging
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from fencepost.config import ConfigError
from fencepost.kafka.setting.client_settings import transaction_timeout_ms
from fencepost.kafka.wire.kafka_python import ssl_context

log = logging.getLogger(__name__)

_CONNECT_S = 5.0
_ANSWER_S = 10.0
_ASK_AGAIN_S = 0.01
_LARGEST_ANSWER = 65_536

# The newest versions without tagged fields; what they lack is of no concern here.
_FIND_COORDINATOR = (10, 2)
_INIT_PRODUCER_ID = (22, 1)
_TRANSACTION = 1  # the kind of coordinator

_NONE = 0
_CONCURRENT_TRANSACTIONS = 51

Address = tuple[str, int]


class _NotHereError(Exception):
    """It cannot be done this way."""


def lock_out_by_request(conf: Mapping[str, Any], transactional_id: str, timeout_s: float) -> bool:
    """Fence the holder of an id and end its transaction; returns whether that is done, for certain (E2).

    `conf` holds a producer's settings in librdkafka's names. Otherwise a producer has to take the id: whatever was in
    the way (a refusal, a broker that is away, a way to connect that only librdkafka knows) is for that to find out, and
    to report. A request that was not answered may be carried out late, and fence whoever has the id then.
    """
    try:
        _lock_out(conf, transactional_id, time.monotonic() + timeout_s)
    except (_NotHereError, ConfigError, OSError, ValueError, struct.error) as error:  # ssl's errors are OSErrors
        log.debug("transactional id %s has to be locked out by a producer: %r", transactional_id, error)
        return False
    return True


def _lock_out(conf: Mapping[str, Any], id_: str, deadline: float) -> None:
    protocol = str(conf.get("security.protocol", "plaintext")).lower()
    if protocol not in ("plaintext", "ssl"):
        raise _NotHereError(f"security.protocol={protocol}")
    tls = ssl_context(conf) if protocol == "ssl" else None
    with ExitStack() as stack:
        known = _connected(str(conf.get("bootstrap.servers", "")), tls, deadline)
        stack.callback(known.close)
        address = _coordinator_of(id_, known)
        coordinator = known
        if address != known.address:
            coordinator = _Connection(address, tls, deadline)
            stack.callback(coordinator.close)
        while (error := _init(coordinator, id_, transaction_timeout_ms(conf))) != _NONE:
            if error != _CONCURRENT_TRANSACTIONS or time.monotonic() > deadline:
                raise _NotHereError(f"InitProducerId: error {error}")
            time.sleep(_ASK_AGAIN_S)  # the holder's transaction is being ended


def _connected(servers: str, tls: ssl.SSLContext | None, deadline: float) -> "_Connection":
    """Return a connection to the first of the servers that has one to give."""
    problem: Exception = _NotHereError("no bootstrap.servers")
    for server in servers.split(","):
        try:
            return _Connection(_address(server), tls, deadline)
        except OSError as error:
            problem = error
    raise problem


def _coordinator_of(id_: str, connection: "_Connection") -> Address:
    answer = connection.ask(_FIND_COORDINATOR, _string(id_) + struct.pack(">b", _TRANSACTION))
    _throttled, error = struct.unpack_from(">ih", answer)
    if error != _NONE:
        raise _NotHereError(f"FindCoordinator: error {error}")
    _message, at = _text(answer, 6)
    host, at = _text(answer, at + 4)  # behind the node's number
    return str(host), struct.unpack_from(">i", answer, at)[0]


class _Connection:
    """Requests and answers, one at a time. Raises OSError, also when time is up."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None, deadline: float) -> None:
        self.address = address
        self._deadline = deadline
        plain = socket.create_connection(address, timeout=self._left(_CONNECT_S))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=address[0])
        self._count = 0

    def ask(self, api: tuple[int, int], body: bytes) -> bytes:
        self._count += 1
        request = struct.pack(">hhi", *api, self._count) + _string("fencepost") + body
        self._socket.settimeout(self._left(_ANSWER_S))
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._read(4))
        if not 4 <= size <= _LARGEST_ANSWER:
            raise _NotHereError(f"an answer of {size} bytes")
        answer = self._read(size)
        if struct.unpack_from(">i", answer)[0] != self._count:
            raise _NotHereError("an answer to another request")
        return answer[4:]

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        read = b""
        while len(read) < size:
            part = self._socket.recv(size - len(read))
            if not part:
                raise ConnectionError("the broker closed the connection")
            read += part
        return read

    def _left(self, most_s: float) -> float:
        return max(0.001, min(most_s, self._deadline - time.monotonic()))


def _init(coordinator: _Connection, id_: str, timeout_ms: int) -> int:
    """Take an id; returns Kafka's error code."""
    answer = coordinator.ask(_INIT_PRODUCER_ID, _string(id_) + struct.pack(">i", timeout_ms))
    return int(struct.unpack_from(">ih", answer)[1])


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _text(data: bytes, at: int) -> tuple[str | None, int]:
    """Return a string, and where what follows it begins."""
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + max(0, size)
    return (None if size < 0 else data[at + 2 : end].decode()), end


def _address(server: str) -> Address:
    host, _, port = server.strip().rpartition("://")[2].rpartition(":")
    return host.strip("[]"), int(port)
