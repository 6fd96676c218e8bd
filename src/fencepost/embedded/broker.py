"""`EmbeddedKafka`: a real Kafka, started and stopped from Python."""

import fcntl
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from fencepost.embedded.class_archive import ClassArchive, is_chosen
from fencepost.embedded.error import BrokerStartError, EmbeddedKafkaError, PortInUseError
from fencepost.embedded.home import KafkaHome, ensure_home
from fencepost.embedded.java import Java, environment_options, find_java, giving_way
from fencepost.embedded.layout import LOOPBACK, NodeDirectory, Ports, choose_ports, controller_settings, server_settings
from fencepost.embedded.process import GuardedProcess

# Logged when every listener accepts requests and the controller has let the broker in.
_READY = "Kafka Server started"
_POLL_S = 0.02
_SHOWN_LINES = 20
_DUMP_TIMEOUT_S = 60.0
_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true")


class Node:
    """A node that is running and ready when the constructor returns."""

    def __init__(
        self,
        java: Java,
        home: KafkaHome,
        directory: NodeDirectory,
        settings: Mapping[str, str],
        *,
        jvm_options: Sequence[str] = (),
        start_timeout_s: float = 180.0,
        is_temporary: bool = False,
    ) -> None:
        """Start the node and wait until it is ready.

        Raises:
            PortInUseError: Another process uses one of the ports.
            BrokerStartError: The node ended, or was not ready in time and was killed. The text has its last output.
        """
        lock = _lock(directory)
        directory.prepare(home.bootstrap_snapshot, settings)
        logging = (f"-Dlog4j2.configurationFile={directory.logging}", f"-Dfencepost.log={directory.log}")
        options = (*node_options(jvm_options), *logging)
        command = [str(java.path), *options, "-cp", home.classpath, "kafka.Kafka", str(directory.settings)]
        self._directory = directory
        self._log_began = directory.log.stat().st_size if directory.log.exists() else 0
        self._where = "" if is_temporary else f"; see {directory.log}"
        remove_with_us = directory.path if is_temporary else None
        with lock:  # this copy is closed; the broker's stays open as long as it runs
            self.process = GuardedProcess(command, directory.console, remove_with_us, [lock.fileno()])
        try:
            self._await_ready(start_timeout_s)
        except BaseException:
            self.process.kill()
            raise

    def last_lines(self) -> str:
        """Return the last lines of the broker's output: errors, and why a JVM did not start."""
        return "\n".join(_read(self._directory.console).splitlines()[-_SHOWN_LINES:])

    def await_logged(self, pattern: re.Pattern[str], timeout_s: float) -> bool:
        """Wait until text that the node logs matches `pattern`. Returns False if it does not do so in time."""
        deadline = time.monotonic() + timeout_s
        while not pattern.search(_read(self._directory.log, self._log_began)):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _await_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while _READY not in _read(self._directory.console):
            if self.process.exit_code is not None:
                raise self._failure(f"Kafka ended with code {self.process.exit_code} before it was ready")
            if time.monotonic() > deadline:
                raise self._failure(f"Kafka was not ready within {timeout_s:g} s")
            time.sleep(_POLL_S)

    def _failure(self, what: str) -> BrokerStartError:
        printed = self.last_lines()
        kind = PortInUseError if "Address already in use" in printed else BrokerStartError
        return kind(f"{what}{self._where}. It printed:\n{printed}")


def node_options(chosen: Sequence[str] = ()) -> list[str]:
    """Return the options of a node's JVM: ours, as far as they do not contradict the environment's, and the chosen."""
    return [*giving_way(_JVM, [*environment_options(), *chosen]), *chosen]


def archive_options(java: Java, home: KafkaHome) -> list[str]:
    """Return JVM options with which a node starts in half the time. Creates the class archive first if there is none.

    That takes seconds. If it fails, Kafka starts without the archive.
    """

    def train(fresh: Path) -> None:
        directory = NodeDirectory(fresh.with_name("node"))
        settings = server_settings(directory.data, choose_ports(), {})
        node = Node(java, home, directory, settings, jvm_options=[f"-XX:ArchiveClassesAtExit={fresh}"])
        node.process.terminate(_DUMP_TIMEOUT_S)

    if is_chosen():
        return []
    try:
        archive = ClassArchive.of(home.directory, "classes", java, [*home.logging_jars, *home.jars])
        if not archive.is_settled():
            archive.make(train)
        return archive.options()
    except (EmbeddedKafkaError, OSError):
        return []  # if Kafka cannot start, the caller's own start reports why


def _lock(directory: NodeDirectory) -> IO[str]:
    """Lock the directory before anything is written: a second broker would overwrite the first one's files."""
    directory.path.mkdir(parents=True, exist_ok=True)
    file = directory.lock.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise BrokerStartError(f"another Kafka runs in {directory.path}: stop it, or give another directory") from None
    return file


def _read(path: Path, start: int = 0) -> str:
    try:
        with path.open("rb") as file:
            file.seek(start)
            return file.read().decode(errors="replace")
    except OSError:
        return ""


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
