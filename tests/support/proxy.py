"""A TCP proxy between clients and one broker that parses Kafka's frames, for network faults at chosen requests.

Clients use `KafkaProxy.bootstrap_servers`. Answers that contain the broker's address (to Metadata, FindCoordinator and
DescribeCluster) are changed to contain the proxy's. It works with any cluster of one broker whose clients use plain
text. For a broker that is to reach itself through a proxy, advertise the proxy's port for its internal listener.
"""

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from typing import Any

from fencepost.testing.verdict import eventually

_CONNECT_TIMEOUT_S = 10.0
_LOOK_AGAIN_S = 0.05


class ApiKey(IntEnum):
    """The requests of Kafka that tests use."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CLUSTER = 60


_NAMES_BROKERS = {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER}


class Action(Enum):
    """How a request that matches a rule is treated, and its connection."""

    PASS = auto()  # nothing; exempts requests from later rules
    HOLD = auto()  # kept for `release`; later requests of the connection wait
    HOLD_AND_RESET = auto()  # kept for `release`; the client sees a connection reset
    RESET = auto()  # lost; the client sees a connection reset
    DROP = auto()  # lost; the client waits for the answer
    ANSWER_LOST = auto()  # the broker carries it out; the client sees a connection reset
    HOLD_ANSWER = auto()  # its answer, and later ones of the connection, are kept for `release`
    HALF_ANSWER = auto()  # the same, but the first half of the answer is passed on at once


_KEEPS_ANSWER = (Action.HOLD_ANSWER, Action.HALF_ANSWER)


@dataclass(frozen=True)
class Request:
    """A request: the whole frame including its size, and the port of the client that sent it."""

    frame: bytes
    client_port: int

    @property
    def api_key(self) -> int:
        return _header(self.frame)[0]


Matches = Callable[[Request], bool]


@dataclass(eq=False)
class Rule:
    """Applies `action` to the next `count` requests of `api_key` (None: any) for which `matches` is true.

    `met` counts them, `answered` counts those that the broker has answered. `requests` and `answers` are in order of
    arrival.
    """

    api_key: int | None
    action: Action
    count: int
    matches: Matches | None = None
    met: int = 0
    answers: list[bytes] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    _held: "list[tuple[_Link, bytes]]" = field(default_factory=list)
    _kept: int = 0

    @property
    def _keeps(self) -> bool:
        return self.action in (Action.HOLD, Action.HOLD_AND_RESET, *_KEEPS_ANSWER)

    @property
    def answered(self) -> int:
        return len(self.answers)

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def await_met(self, times: int = 1, within_s: float = 60.0) -> None:
        """Wait until that many requests have matched and, if they are kept, are held. Raises AssertionError."""
        eventually(lambda: (self._kept if self._keeps else self.met) >= times, within_s=within_s, every_s=0.005)

    def await_answered(self, times: int = 1, within_s: float = 60.0) -> None:
        """Wait until the broker has answered that many of the requests. Raises AssertionError."""
        eventually(lambda: self.answered >= times, within_s=within_s, every_s=0.005)

    def met_meanwhile(self, begun_s: float, times: float = 10) -> int:
        """Return how often it is met within that many times what all has taken since `begun_s`, on this machine.

        A request that nothing holds up is there by then. It is long before clients give up what is held.
        """
        with suppress(AssertionError):
            self.await_met(within_s=min(max(1.0, times * (time.monotonic() - begun_s)), 15.0))
        return self.met

    def release(self) -> int:
        """Deliver what was held, in order, and wait for the broker's answers. Returns how many there were.

        Answers that were held are passed on.
        """
        held, self._held = self._held, []
        for link, frame in held:
            if self.action in _KEEPS_ANSWER:
                link.deliver_answer()
            else:
                link.deliver_late(frame)
        return len(held)

    def deliver(self) -> None:
        """Deliver what was held; the answers are withheld for `release`, as if the action had been HOLD_ANSWER."""
        self.action = Action.HOLD_ANSWER
        for link, frame in self._held:
            link.deliver(frame)

    def discard(self) -> int:
        """Drop what was held, and close its connections. Returns how many there were."""
        held, self._held = self._held, []
        for link, _ in held:
            link.close()
        return len(held)

    def _keep(self, link: "_Link", frame: bytes) -> None:
        self._held.append((link, frame))
        self._kept += 1

    def _is_about(self, request: Request) -> bool:
        if self.met >= self.count or self.api_key not in (None, request.api_key):
            return False
        return self.matches is None or self.matches(request)


class KafkaProxy:
    """Listens on a port of the loopback interface; a context manager.

    While the broker refuses connections, the proxy refuses them, too: clients back off then, which they do not after a
    reset. The first rule that matches a request applies, in the order in which they were added. Thread-safe.
    """

    def __init__(self, broker: str) -> None:
        """`broker` is `host:port`."""
        host, _, port = broker.rpartition(":")
        self._broker = (host, int(port))
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._links: list[_Link] = []
        self._flows = threading.Event()
        self._flows.set()
        self._pace = _Pace()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafka-proxy", daemon=True)

    def __enter__(self) -> "KafkaProxy":
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def lead_to(self, broker: str) -> None:
        """Forward new connections to another address, for a broker that is started after its proxy."""
        host, _, port = broker.rpartition(":")
        self._broker = (host, int(port))

    def on(self, api_key: int | None, action: Action, count: int = 1, matches: Matches | None = None) -> Rule:
        """Add a rule. `matches` is called for one request at a time, and must be quick."""
        rule = Rule(api_key, action, count, matches)
        with self._lock:
            self._rules.append(rule)
        return rule

    def forget(self, *rules: Rule) -> None:
        """Remove these rules; what they hold can still be released."""
        with self._lock:
            self._rules = [known for known in self._rules if known not in rules]

    def clear(self) -> None:
        """Remove all rules; what they hold can still be released."""
        with self._lock:
            self._rules.clear()

    def slow_down(self, bytes_per_s: float | None) -> None:
        """Limit the rate of each connection's requests from now on; None: no limit."""
        self._pace.bytes_per_s = bytes_per_s

    def pause(self) -> None:
        """Stop forwarding in both directions; connections stay open, and new ones are accepted."""
        self._flows.clear()

    def resume(self) -> None:
        """Forward again, including what has waited."""
        self._flows.set()

    def reset_all(self) -> None:
        """Reset every open connection; clients may connect again."""
        with self._lock:
            links = list(self._links)
        for link in links:
            link.reset()

    def stop(self) -> None:
        """Close everything."""
        self._stopping.set()
        _shut(self._listener)
        self._flows.set()
        with self._lock:
            links = list(self._links)
        for link in links:
            link.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            if not self._accept():
                _shut(self._listener)
                self._await_broker()

    def _accept(self) -> bool:
        """Accept one client. Returns False if that failed, or if the broker refuses connections."""
        try:
            client, _ = self._listener.accept()
        except OSError:
            return False
        try:
            broker = socket.create_connection(self._broker, _CONNECT_TIMEOUT_S)
        except OSError:
            reset(client)
            return False
        broker.settimeout(None)
        for end in (client, broker):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # otherwise every small frame waits for 40 ms
        link = _Link(client, broker, self._rule_for, self._flows, self._renamed, self._pace)
        with self._lock:
            self._links = [known for known in self._links if not known.is_over]
            self._links.append(link)
        link.start()
        return True

    def _await_broker(self) -> None:
        """Listen again, at the same port, once the broker does."""
        while not self._stopping.wait(_LOOK_AGAIN_S):
            try:
                socket.create_connection(self._broker, _CONNECT_TIMEOUT_S).close()
                listener = socket.create_server(("127.0.0.1", self.port))
            except OSError:
                continue
            self._listener = listener
            if self._stopping.is_set():
                _shut(listener)
            return

    def _rule_for(self, request: Request) -> Rule | None:
        with self._lock:
            for rule in self._rules:
                if rule._is_about(request):
                    rule.requests.append(request)
                    rule.met += 1
                    return rule
        return None

    def _renamed(self, frame: bytes) -> bytes:
        """Replace the broker's address by the proxy's: host and four bytes of port, in every version of the answers."""
        host, port = self._broker
        old, new = host.encode() + struct.pack(">i", port), host.encode() + struct.pack(">i", self.port)
        return frame.replace(old, new)


class _Pace:
    """The rate at which requests are forwarded."""

    def __init__(self) -> None:
        self.bytes_per_s: float | None = None

    def await_through(self, size_bytes: int) -> None:
        if self.bytes_per_s is not None:
            time.sleep(size_bytes / self.bytes_per_s)


class _Link:
    """A client's connection and the one to the broker, which stays open while a request is held."""

    def __init__(
        self,
        client: socket.socket,
        broker: socket.socket,
        rule_for: Callable[[Request], Rule | None],
        flows: threading.Event,
        renamed: Callable[[bytes], bytes],
        pace: "_Pace",
    ) -> None:
        self._client, self._broker = client, broker
        self._pace = pace
        self._rule_for, self._flows, self._renamed = rule_for, flows, renamed
        self._client_port = int(client.getpeername()[1])
        self._asked: dict[int, int] = {}
        self._rules_by_id: dict[int, Rule] = {}
        self._loses_answer_to: int | None = None
        self._keeps_broker = False
        self._may_go_on = threading.Event()
        self._may_answer = threading.Event()
        self._late: dict[int, threading.Event] = {}
        self._send_lock = threading.Lock()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._upward, self._downward)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def reset(self) -> None:
        reset(self._client)

    def close(self) -> None:
        _shut(self._client)
        _shut(self._broker)
        self._may_go_on.set()
        self._may_answer.set()

    def deliver(self, frame: bytes) -> None:
        self._may_answer.clear()
        self._send(frame)

    def deliver_answer(self) -> None:
        self._may_answer.set()
        self._may_go_on.set()

    def deliver_late(self, frame: bytes) -> None:
        correlation_id = _header(frame)[1]
        answered = self._late[correlation_id] = threading.Event()
        self._send(frame)
        if not answered.wait(60.0):
            raise AssertionError("the broker did not answer a request that was delivered late")
        self._may_go_on.set()

    def _upward(self) -> None:
        """Requests: client to broker."""
        try:
            while (frame := _read_frame(self._client)) is not None:
                self._flows.wait()
                self._pace.await_through(len(frame))
                api_key, correlation_id = _header(frame)
                self._asked[correlation_id] = api_key
                rule = self._rule_for(Request(frame, self._client_port))
                if rule is None:
                    self._send(frame)
                    continue
                self._rules_by_id[correlation_id] = rule
                if not self._suffers(rule, frame, correlation_id):
                    break
        except OSError:
            pass
        if not self._keeps_broker:
            _shut(self._broker)

    def _suffers(self, rule: Rule, frame: bytes, correlation_id: int) -> bool:
        """Do to a request what the rule says, and say whether the connection lives on."""
        if rule.action is Action.PASS:
            self._send(frame)
        if rule.action in (Action.HOLD, Action.HOLD_AND_RESET):
            self._keeps_broker = True
            self._may_go_on.clear()
            rule._keep(self, frame)
        if rule.action is Action.HOLD:
            self._may_go_on.wait()
        elif rule.action in _KEEPS_ANSWER:
            self._may_answer.clear()
            rule._keep(self, frame)
            self._send(frame)
        elif rule.action is Action.ANSWER_LOST:
            self._loses_answer_to = correlation_id
            self._send(frame)
        elif rule.action not in (Action.PASS, Action.DROP):
            self.reset()
            return False
        return True

    def _downward(self) -> None:
        """Answers: broker to client."""
        try:
            while (frame := _read_frame(self._broker)) is not None:
                self._flows.wait()
                self._answer(frame)
        except OSError:
            pass
        _shut(self._client)
        _shut(self._broker)

    def _answer(self, frame: bytes) -> None:
        correlation_id: int = struct.unpack_from(">i", frame, 4)[0]
        if correlation_id == self._loses_answer_to:
            self.reset()
            return
        if self._asked.pop(correlation_id, None) in _NAMES_BROKERS:
            frame = self._renamed(frame)
        rule = self._rules_by_id.pop(correlation_id, None)
        is_kept = rule is not None and rule.action in _KEEPS_ANSWER
        if rule is not None and is_kept:
            rule.answers.append(frame)
            if rule.action is Action.HALF_ANSWER:
                self._client.sendall(frame[: len(frame) // 2])
                frame = frame[len(frame) // 2 :]
            self._may_answer.wait()
        try:
            self._client.sendall(frame)
        except OSError:
            if not self._keeps_broker:
                raise
        if rule is not None and not is_kept:
            rule.answers.append(frame)
        if (late := self._late.pop(correlation_id, None)) is not None:
            late.set()

    def _send(self, frame: bytes) -> None:
        with self._send_lock:
            self._broker.sendall(frame)


def _header(frame: bytes) -> tuple[int, int]:
    """Return the api key and correlation id of a request."""
    _, api_key, _, correlation_id = struct.unpack_from(">ihhi", frame)
    return api_key, correlation_id


def _read_frame(connection: socket.socket) -> bytes | None:
    """Return the next frame including its size; None at the end of the stream."""
    size = _read(connection, 4)
    if size is None:
        return None
    body = _read(connection, struct.unpack(">i", size)[0])
    return None if body is None else size + body


def _read(connection: socket.socket, count: int) -> bytes | None:
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)  # wakes up its reader
    except OSError:
        pass
    connection.close()


def reset(connection: socket.socket) -> None:
    """Close a connection so that its peer sees a reset (RST)."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RD)  # wakes up its reader, and sends nothing to the peer
    except OSError:
        pass
    connection.close()
