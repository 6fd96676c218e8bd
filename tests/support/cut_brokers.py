"""Three brokers and a controller, of which a broker can be cut off from the other nodes, and not from clients.

Nodes know each other by names. Each has a hosts file of its own, in which the name of another node is an address of
the loopback network with a proxy, a `Line`. What is cut off from other nodes answers clients as before, from what it
last knew. Clients reach brokers directly, or by lines that can refuse them, too.
"""

import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

import psutil
from kafka import KafkaAdminClient, TopicPartition

from fencepost.embedded.broker import Node
from fencepost.embedded.layout import LOOPBACK, Ports
from fencepost.testing import eventually
from support.brokers import IN_SYNC, Brokers, other_ports

BROKERS = (1, 2, 3)
QUICK_TO_FENCE = {
    IN_SYNC: "2",
    "transaction.state.log.min.isr": "2",
    "broker.session.timeout.ms": "2500",
    "broker.heartbeat.interval.ms": "300",
    # Who waits for the cut-off broker's answer does so for as long at most.
    "controller.quorum.request.timeout.ms": "2000",
    "group.min.session.timeout.ms": "1000",
}
"""The settings of brokers of which a silent one is replaced after a few seconds."""

CLIENTS, CONTROLLER = 0, 100
_WITHIN_S = 240.0
Place = tuple[str, int]


class CutBrokers(Brokers):
    """The cluster; a context manager. A broker is well, cut off, or hangs, or both."""

    def __init__(self, cluster_id: str, *, has_client_lines: bool = False) -> None:
        """With `has_client_lines`, brokers tell clients addresses at which they can be refused."""
        super().__init__(QUICK_TO_FENCE, count=len(BROKERS), cluster_id=cluster_id)
        self._has_client_lines = has_client_lines
        self._lines: dict[tuple[int, int], Line] = {}
        self._controller: Node | None = None
        self._controller_ports = Ports(0, 0, 0)

    def _before_start(self, taken: set[int]) -> None:
        self._controller_ports = other_ports(taken)
        self._lines = {}
        for node in BROKERS:
            for other in (*BROKERS, CONTROLLER):
                if other != node:
                    self._lines[node, other] = Line(_address(node, other), (LOOPBACK, self._port(other)))
            self._lines[CLIENTS, node] = Line(_address(CLIENTS, node), (LOOPBACK, self._ports[node].client))
        own = {
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{LOOPBACK}:{self._controller_ports.controller}",
        }
        self._controller = self._run(CONTROLLER, self._controller_ports, {**own, **self._voters()}, jvm_options=[])

    def _start(self, node_id: int) -> Node:
        ports = self._ports[node_id]
        host = _address(CLIENTS, node_id) if self._has_client_lines else LOOPBACK
        own = {
            "process.roles": "broker",
            "listeners": f"CLIENT://{LOOPBACK}:{ports.client},INTERNAL://{LOOPBACK}:{ports.internal}",
            "advertised.listeners": f"CLIENT://{host}:{ports.client},INTERNAL://{_name(node_id)}:{ports.internal}",
        }
        return self._run(node_id, ports, {**own, **self._voters()}, jvm_options=[self._hosts_file(node_id)])

    def _voters(self) -> dict[str, str]:
        return {"controller.quorum.voters": f"{CONTROLLER}@{_name(CONTROLLER)}:{self._controller_ports.controller}"}

    def _port(self, node: int) -> int:
        return self._controller_ports.controller if node == CONTROLLER else self._ports[node].internal

    def _hosts_file(self, node: int) -> str:
        """Write how a node finds the others, and return the option of a JVM that has it look there alone."""
        path = self._directory / f"hosts-{node}"
        others = [(_address(node, each), _name(each)) for each in (*BROKERS, CONTROLLER) if each != node]
        names = {"localhost", socket.gethostname(), _name(node)}
        path.write_text("".join(f"{a} {n}\n" for a, n in [*((LOOPBACK, name) for name in names), *others]))
        return f"-Djdk.net.hosts.file={path}"

    def _end_all(self) -> None:
        for line in self._lines.values():
            line.close()
        super()._end_all()
        if self._controller is not None:
            self._controller.process.kill()
            self._controller = None

    # what is done to a broker

    def cut(self, broker: int, *others: int) -> None:
        """Hold all bytes between a broker and these nodes, all others where none is named.

        Their connections stay, and new ones are accepted.
        """
        for line in self._lines_of(broker, *others):
            line.hold()

    def heal(self, broker: int) -> None:
        """Deliver what was held, and all that comes."""
        for line in self._lines_of(broker):
            line.release()

    @contextmanager
    def refusing(self, broker: int) -> Iterator["Line"]:
        """Close the connections of clients with a broker, and each new one, for a block."""
        line = self._lines[CLIENTS, broker]
        line.refuse()
        try:
            yield line
        finally:
            line.accept()

    def hang(self, broker: int) -> None:
        """SIGSTOP."""
        psutil.Process(self.pid(broker)).suspend()

    def wake(self, broker: int) -> None:
        """SIGCONT."""
        psutil.Process(self.pid(broker)).resume()

    def _lines_of(self, broker: int, *others: int) -> list["Line"]:
        return [
            line
            for ends, line in self._lines.items()
            if broker in ends and CLIENTS not in ends and (not others or {*others} & {*ends})
        ]

    # what the brokers say

    def await_deposed(self, broker: int) -> None:
        """Wait until both other brokers say of every partition that another one leads."""
        others = [each for each in BROKERS if each != broker]
        eventually(
            lambda: all(not {-1, broker} & set(self.leaders_by(each).values()) for each in others), within_s=_WITHIN_S
        )

    def await_well(self) -> None:
        """Wait until all brokers say the same of every partition, and each has all of them in sync."""

        def is_well() -> bool:
            said = [self._metadata(broker) for broker in BROKERS]
            return all(each == said[0] for each in said) and all(
                leader in BROKERS and len(in_sync) == len(BROKERS) for leader, in_sync in said[0].values()
            )

        eventually(is_well, within_s=_WITHIN_S)

    def leaders_by(self, broker: int) -> dict[Place, int]:
        """Return the leader of each partition, as this broker says."""
        return {place: leader for place, (leader, _) in self._metadata(broker).items()}

    def _metadata(self, broker: int) -> dict[Place, tuple[int, frozenset[int]]]:
        with socket.create_connection((LOOPBACK, self._ports[broker].client), 10) as connection:
            connection.settimeout(10)
            request = struct.pack(">hhih4si", 3, 1, 1, 4, b"test", -1)  # Metadata, version 1, of all topics
            connection.sendall(struct.pack(">i", len(request)) + request)
            file = connection.makefile("rb")
            return dict(_Answer(file.read(struct.unpack(">i", file.read(4))[0])).places())

    def place(self, leaders: Mapping[Place, int]) -> None:
        """Have these partitions led by these brokers. All have to be well."""
        wanted = {
            TopicPartition(*place): [leader, *(each for each in BROKERS if each != leader)]
            for place, leader in leaders.items()
        }
        elected: dict[str, list[int]] = {}
        for topic, partition in leaders:
            elected.setdefault(topic, []).append(partition)
        admin = KafkaAdminClient(
            bootstrap_servers=self.bootstrap_servers.split(","), request_timeout_ms=60_000, bootstrap_timeout_ms=60_000
        )

        def are_led() -> bool:
            found = self.leaders_by(BROKERS[0])
            if all(found.get(place) == leader for place, leader in leaders.items()):
                return True
            admin.alter_partition_reassignments(wanted)
            admin.elect_leaders(0, elected, raise_errors=False)
            return False

        try:
            eventually(are_led, within_s=_WITHIN_S, every_s=0.3)
        finally:
            admin.close()


def _name(node: int) -> str:
    return f"node-{node}.internal"


def _address(node: int, other: int) -> str:
    """Return where a node finds another one."""
    return f"127.77.{node}.{other}"


class Line:
    """A TCP proxy, from one address to another, that can hold all bytes in both directions, and refuse connections."""

    def __init__(self, address: str, target: tuple[str, int]) -> None:
        """Listen at the target's port of another address."""
        self._target = target
        self._flows = threading.Event()
        self._flows.set()
        self._refuses = False
        self.refused = 0
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server((address, target[1]), backlog=64)
        threading.Thread(target=self._run, daemon=True).start()

    def hold(self) -> None:
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    def refuse(self) -> None:
        """Close all connections, and those that come. `refused` counts the latter."""
        self.refused, self._refuses = 0, True
        connections, self._connections = self._connections, []
        for connection in connections:
            _shut(connection)

    def accept(self) -> None:
        self._refuses = False

    def close(self) -> None:
        for connection in (self._listener, *self._connections):
            _shut(connection)
        self._flows.set()

    def _run(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                near, _ = self._listener.accept()
                if self._refuses:
                    self.refused += 1
                    _shut(near)
                    continue
                self._connections.append(near)
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._flows.wait()
        try:
            far = socket.create_connection(self._target, 10)
        except OSError:
            _shut(near)
            return
        far.settimeout(None)
        self._connections.append(far)
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=self._pump, args=(near, far), daemon=True).start()
        self._pump(far, near)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                target.sendall(data)
        self._flows.wait()  # the end of a connection is held as well
        _shut(source)
        _shut(target)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


class _Answer:
    """An answer to Metadata, version 1."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 4  # after the correlation id

    def places(self) -> Iterable[tuple[Place, tuple[int, frozenset[int]]]]:
        """Return leader and replicas in sync of each partition."""
        for _ in range(self._number("i")):
            self._number("i")  # a broker: id, host, port, rack
            self._text()
            self._number("i")
            self._text()
        self._number("i")  # controller
        for _ in range(self._number("i")):
            self._number("h")
            topic = self._text()
            self._number("b")
            for _ in range(self._number("i")):
                self._number("h")
                partition, leader = self._number("i"), self._number("i")
                self._numbers()
                yield (topic, partition), (leader, frozenset(self._numbers()))

    def _number(self, kind: str) -> int:
        (found,) = struct.unpack_from(f">{kind}", self._data, self._at)
        self._at += struct.calcsize(kind)
        return int(found)

    def _numbers(self) -> list[int]:
        return [self._number("i") for _ in range(self._number("i"))]

    def _text(self) -> str:
        size = self._number("h")
        if size < 0:
            return ""
        self._at += size
        return self._data[self._at - size : self._at].decode()
