"""One run of a Kafka node, from writing its settings to its end."""

import fcntl
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from fencepost.embedded.class_archive import ClassArchive, is_chosen
from fencepost.embedded.error import BrokerStartError, EmbeddedKafkaError, PortInUseError
from fencepost.embedded.home import KafkaHome
from fencepost.embedded.java import Java
from fencepost.embedded.jvm_options import environment_options, giving_way
from fencepost.embedded.layout import NodeDirectory, choose_ports, server_settings
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
