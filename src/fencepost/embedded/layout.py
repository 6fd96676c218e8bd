"""The directory and the ports of a node: settings, logging configuration, and a formatted data directory.

Formatting is done without a second JVM: `meta.properties` is four lines, and the snapshot of feature levels
is the same for every new cluster, so Kafka's storage tool writes it once per installation.
"""

import base64
import random
import shutil
import socket
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fencepost.embedded.error import JarError, PortInUseError
from fencepost.embedded.java import Java

LOOPBACK = "127.0.0.1"
BOOTSTRAP_SNAPSHOT = "bootstrap.checkpoint"
NODE_ID = 1
# Below the ranges for outgoing connections: within them, a client (even one of this broker, that connects to itself)
# could take the port while the broker is down.
_CANDIDATES = range(20_000, 32_000)


@dataclass(frozen=True)
class Ports:
    """The ports of a node: for clients, for itself, and as controller."""

    client: int
    internal: int
    controller: int


@dataclass(frozen=True)
class NodeDirectory:
    """The files of one node."""

    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def settings(self) -> Path:
        return self.path / "server.properties"

    @property
    def logging(self) -> Path:
        return self.path / "log4j2.properties"

    @property
    def log(self) -> Path:
        """Return the file with everything that the broker logs."""
        return self.path / "kafka.log"

    @property
    def lock(self) -> Path:
        """Return the lock file, which is locked as long as a broker runs here."""
        return self.path / ".lock"

    @property
    def console(self) -> Path:
        """Return the file with the errors of the latest start, and the line that says that the node is ready."""
        return self.path / "console.log"

    @property
    def was_killed(self) -> bool:
        """Say whether the last broker here did not shut down cleanly."""
        return (self.data / "__cluster_metadata-0").exists() and not (self.data / ".kafka_cleanshutdown").exists()

    def prepare(self, snapshot: Path, settings: Mapping[str, str]) -> None:
        """Write the settings, and format the data directory if it is not formatted yet."""
        self.data.mkdir(parents=True, exist_ok=True)
        self.settings.write_text(render(settings))
        self.logging.write_text(LOGGING)
        metadata = self.data / "meta.properties"
        if not metadata.exists():
            shutil.copyfile(snapshot, self.data / BOOTSTRAP_SNAPSHOT)
            identity = {
                "version": "1",
                "cluster.id": _kafka_uuid(),
                "node.id": str(NODE_ID),
                "directory.id": _kafka_uuid(),
            }
            metadata.write_text(render(identity))


def server_settings(data: Path, ports: Ports, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a single small node, with `overrides` applied.

    Clients use the listener CLIENT, and the node itself uses INTERNAL. So a test can change the protocol of CLIENT
    (`listener.security.protocol.map`) and nothing else.
    """
    client, internal = f"CLIENT://{LOOPBACK}:{ports.client}", f"INTERNAL://{LOOPBACK}:{ports.internal}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@{LOOPBACK}:{ports.controller}",
        "listeners": f"{client},{internal},CONTROLLER://{LOOPBACK}:{ports.controller}",
        "advertised.listeners": f"{client},{internal}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INTERNAL",
        "listener.name.internal.num.network.threads": "1",
        "log.dirs": str(data),
        **_SMALL,
    }
    return settings | dict(overrides)


def controller_settings(data: Path, ports: Ports) -> dict[str, str]:
    """Return the settings of the same node as controller only, which ends the old broker's session at once."""
    settings = server_settings(data, ports, {"process.roles": "controller", "broker.session.timeout.ms": "100"})
    del settings["advertised.listeners"], settings["inter.broker.listener.name"]
    return {**settings, "listeners": f"CONTROLLER://{LOOPBACK}:{ports.controller}"}


_SMALL = {
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    "background.threads": "4",
    # 0 stops the empty records, two a second, which no other node needs as a sign of life.
    "metadata.max.idle.interval.ms": "0",
    # A killed broker can register again only after its old session has timed out: 9 s by default.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}

# The console gets what a waiting user must see; the file gets the rest.
LOGGING = """\
status = error
shutdownHook = disable
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = ${sys:fencepost.log}
appender.file.filePattern = ${sys:fencepost.log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{ISO8601} %-5p %m (%c)%n
appender.file.policy.type = SizeBasedTriggeringPolicy
appender.file.policy.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %-5p %m%n%ex{short}
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = file
rootLogger.appenderRef.console.ref = console
rootLogger.appenderRef.console.level = ERROR
logger.controller.name = org.apache.kafka.controller.QuorumController
logger.controller.level = ${sys:fencepost.controller.level:-INFO}
logger.ready.name = kafka.server.KafkaRaftServer
logger.ready.level = INFO
logger.ready.appenderRef.console.ref = console
logger.ready.appenderRef.file.ref = file
logger.ready.additivity = false
"""


def render(properties: Mapping[str, str]) -> str:
    """Return settings in Java's properties format."""
    return "".join(f"{_escape(key, key=True)}={_escape(value)}\n" for key, value in properties.items())


def _escape(text: str, *, key: bool = False) -> str:
    for plain, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\f", "\\f")):
        text = text.replace(plain, escaped)
    if key:
        text = "".join("\\" + char if char in " =:#!" else char for char in text)
    elif text.startswith(" "):
        text = "\\" + text
    units = struct.iter_unpack(">H", text.encode("utf-16-be"))
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for (unit,) in units)


def _kafka_uuid() -> str:
    """Return a random UUID in Kafka's notation, without a leading dash, which its tools would take for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def write_bootstrap_snapshot(java: Java, classpath: str, target: Path) -> None:
    """Format a scratch directory with Kafka's storage tool, and keep the snapshot that it writes.

    Raises:
        JarError: The tool failed. The text has its output.
    """
    with tempfile.TemporaryDirectory(prefix="fencepost-format-") as scratch:
        node = NodeDirectory(Path(scratch))
        node.settings.write_text(render(server_settings(node.data, Ports(1, 2, 3), {})))
        arguments = ["format", "-t", _kafka_uuid(), "-c", str(node.settings)]
        command = [str(java.path), "-cp", classpath, "kafka.tools.StorageTool", *arguments]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
        if done.returncode != 0:
            raise JarError(f"Kafka's storage tool failed: {done.stderr.strip() or done.stdout.strip()}")
        shutil.copyfile(node.data / BOOTSTRAP_SNAPSHOT, target)


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def choose_ports(client: int = 0) -> Ports:
    """Return free ports; `client` is kept if it is not 0.

    Raises:
        PortInUseError: `client` is in use.
    """
    if client and not is_free(client):
        raise PortInUseError(f"port {client} is in use: stop what listens there, or give another port (0: any)")
    chosen: list[int] = []
    for candidate in random.SystemRandom().sample(_CANDIDATES, 500):
        if candidate != client and is_free(candidate):
            chosen.append(candidate)
        if len(chosen) == 3:
            return Ports(client or chosen[0], chosen[1], chosen[2])
    raise PortInUseError(f"no free port between {_CANDIDATES.start} and {_CANDIDATES.stop}")
