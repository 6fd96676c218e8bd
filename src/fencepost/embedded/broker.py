"""`EmbeddedKafka`: a real Kafka, started and stopped from Python."""

import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from fencepost.embedded.error import EmbeddedKafkaError, PortInUseError
from fencepost.embedded.home import ensure_home
from fencepost.embedded.java import find_java
from fencepost.embedded.layout import LOOPBACK, NodeDirectory, Ports, choose_ports, controller_settings, server_settings
from fencepost.embedded.node import Node, archive_options

_STOP_TIMEOUT_S = 15.0
_PORT_ATTEMPTS = 3
# The line after which the fencing is durable in the log. Other operations of this kind only check.
_FENCED = re.compile(r"Fencing broker .*Read-write operation (maybeFenceStaleBroker\(\d+\)).*Processed \1 ", re.DOTALL)
_FENCED_S = 30.0


class EmbeddedKafka:
    """One Kafka node (broker and controller), a child of this process, on the loopback interface.

        with EmbeddedKafka() as kafka:
            producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    The port and the data stay the same over `kill`, `start` and `restart` of one object. `stop` deletes the data,
    unless the caller gave the directory. Not thread-safe.
    """

    def __init__(
        self,
        port: int = 0,
        dir: str | Path | None = None,
        properties: Mapping[str, str] | None = None,
        *,
        start_timeout_s: float = 180.0,
        jvm_options: Sequence[str] = (),
    ) -> None:
        """Store the settings. `start` starts the broker.

        Args:
            port: The port for clients; 0 chooses a free one.
            dir: The directory for data and logs, which a later broker can use again. None: a temporary one.
            properties: Broker settings, which override those chosen here.
            start_timeout_s: How long a start may take. On an idle machine it takes a second or two.
            jvm_options: Additional options of Kafka's JVM.
        """
        self._wanted_port = port
        self._wanted_dir = Path(dir).resolve() if dir is not None else None
        self._properties = {key: str(value) for key, value in (properties or {}).items()}
        self._start_timeout_s = start_timeout_s
        self._jvm_options = tuple(jvm_options)
        self._ports: Ports | None = None
        self._temporary: Path | None = None
        self._node: Node | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Return the bootstrap servers for clients: `127.0.0.1:<port>`."""
        return f"{LOOPBACK}:{self._started_ports().client}"

    @property
    def internal_servers(self) -> str:
        """Return the address of a listener without TLS or SASL, even if `properties` change the one for clients."""
        return f"{LOOPBACK}:{self._started_ports().internal}"

    @property
    def port(self) -> int:
        return self._started_ports().client

    @property
    def pid(self) -> int:
        """Return the JVM's process id."""
        if self._node is None:
            raise EmbeddedKafkaError("Kafka is not running: call start(), or use it in a with statement")
        return self._node.process.pid

    @property
    def is_running(self) -> bool:
        return self._node is not None and self._node.process.exit_code is None

    @property
    def directory(self) -> Path:
        """Return the directory with data, settings and logs."""
        if self._wanted_dir is not None:
            return self._wanted_dir
        if self._temporary is None:
            self._temporary = Path(tempfile.mkdtemp(prefix="fencepost-kafka-"))
        return self._temporary

    @property
    def log(self) -> Path:
        """Return the file with everything that the broker logs."""
        return NodeDirectory(self.directory).log

    def start(self) -> None:
        """Start the broker and wait until it is ready. Does nothing if it is running.

        Raises:
            EmbeddedKafkaError: There is no Java, there are no jars, a port is in use, or Kafka refused its settings.
        """
        if self.is_running:
            return
        try:
            self._node = self._start_node()
        except BaseException:
            if self._ports is None:
                self._remove_temporary()
            raise

    def stop(self) -> None:
        """Stop the broker gracefully (kill it after 15 s), and delete a temporary directory."""
        self._end_node()
        self._remove_temporary()

    def kill(self) -> None:
        """Kill the broker with SIGKILL. The data are kept for the next `start`."""
        if self._node is not None:
            self._node.process.kill()
        self._node = None

    def restart(self) -> None:
        """Stop the broker gracefully and start it again, on the same port with the same data."""
        self._end_node()
        self.start()

    def last_lines(self) -> str:
        """Return the last lines of the broker's output, for an error message."""
        return self._node.last_lines() if self._node is not None else ""

    def _start_node(self) -> Node:
        java = find_java()
        home = ensure_home(java)
        options = [*archive_options(java, home), *self._jvm_options]
        directory = NodeDirectory(self.directory)
        start = partial(
            Node,
            java,
            home,
            directory,
            start_timeout_s=self._start_timeout_s,
            is_temporary=self._temporary is not None,
        )
        for attempts_left in reversed(range(_PORT_ATTEMPTS)):
            # A restart keeps its ports. If another process takes one, only a first start tries others.
            ports = self._ports or choose_ports(self._wanted_port)
            try:
                if directory.was_killed:
                    alone = controller_settings(directory.data, ports)
                    _fence_broker(start(alone, jvm_options=[*options, "-Dfencepost.controller.level=DEBUG"]))
                node = start(server_settings(directory.data, ports, self._properties), jvm_options=options)
            except PortInUseError:
                if not attempts_left or self._ports is not None:
                    raise
            else:
                self._ports = ports
                return node
        raise AssertionError("unreachable")

    def _end_node(self) -> None:
        if self._node is not None:
            self._node.process.terminate(_STOP_TIMEOUT_S)
        self._node = None

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary = None

    def _started_ports(self) -> Ports:
        if self._ports is None:
            raise EmbeddedKafkaError("Kafka has not been started: call start(), or use it in a with statement")
        return self._ports


def _fence_broker(controller: Node) -> None:
    """Run only the controller until it has ended the session of a killed broker, and so its leadership.

    Otherwise the broker would start as the leader that it was, resume transactions that were being completed, lose its
    leadership in the meantime, treat partitions without a leader as deleted, and complete those transactions without
    their markers. Readers would then wait for ever (docs/decisions/0016).
    """
    try:
        controller.await_logged(_FENCED, _FENCED_S)  # not logged if it was killed before it was registered
    finally:
        controller.process.kill()
