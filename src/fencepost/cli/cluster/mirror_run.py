"""`fencepost mirror FILE`: the flows of a MirrorMaker 2 file, each with a worker and a process of its own."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

from fencepost.builtin.mirror.dedicated import Flow, MirrorFile
from fencepost.cli.cluster.worker import refused, serve_worker
from fencepost.config import ConfigError
from fencepost.config.connector_limit import keep_from_connectors
from fencepost.config.rest import Listener
from fencepost.config.worker import WorkerConfig
from fencepost.embedded.error import EmbeddedKafkaError
from fencepost.embedded.java import find_java
from fencepost.embedded.layout import choose_ports
from fencepost.telemetry.logs import configure_logs
from fencepost.telemetry.plain_line import with_source
from fencepost.worker.declaration import Declared
from fencepost.worker.host.driver import Driver

log = logging.getLogger("fencepost.builtin.mirror")

_Running = Mapping[str, "subprocess.Popen[bytes]"]

_LOOK_S = 0.2
_LOOK_AGAIN_S = 0.01
_LAST_LINES_S = 10.0


class Processes:
    """Runs commands until SIGTERM or Ctrl-C, or until one of them ends; the others are then asked to end.

    A supervisor that restarts this process thus restarts all of them. Their output is printed with their names before
    each line, or in it if it is JSON. They run in separate sessions: Ctrl-C reaches only this process, which ends them
    once.
    """

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        """`commands`: by a name for each."""
        self._commands = commands
        self._signals = 0
        self._is_signalled = threading.Event()
        self._readers: list[threading.Thread] = []

    def run(self) -> int:
        """Run the processes; return the exit code of the first that ended by itself, else the highest.

        A signal ends them, and a second one kills them.
        """
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            return self._run()
        finally:
            self._await_last_lines()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _await_last_lines(self) -> None:
        """Wait until all is printed, as the last lines say why a process ended; not for long, and not after a signal.

        A process of theirs may still have the pipe.
        """
        self._is_signalled.clear()
        until_s = time.monotonic() + _LAST_LINES_S
        while any(reader.is_alive() for reader in self._readers) and time.monotonic() < until_s:
            if self._is_signalled.wait(_LOOK_AGAIN_S):
                return

    def _run(self) -> int:
        running: _Running = {name: self._started(name, command) for name, command in self._commands.items()}
        while not self._is_signalled.wait(_LOOK_S):
            ended = {name: child for name, child in running.items() if child.poll() is not None}
            if ended:
                return self._ended_by_itself(ended, running)
        self._end(running)
        return max((abs(child.returncode) for child in running.values()), default=0)

    def _ended_by_itself(self, ended: _Running, running: _Running) -> int:
        for name, child in ended.items():
            log.error("process %s exited unexpectedly (code %d): ending the others", name, child.returncode)
        first = next(iter(ended.values())).returncode
        self._end(running)
        return abs(first) or 1

    def _end(self, running: _Running) -> None:
        for child in running.values():
            child.terminate()
        while any(child.poll() is None for child in running.values()):
            if self._signals > 1:
                for child in running.values():
                    child.kill()
            self._is_signalled.clear()
            self._is_signalled.wait(_LOOK_S)

    def _on_signal(self, _signal: int, _frame: FrameType | None) -> None:
        self._signals += 1
        self._is_signalled.set()

    def _started(self, name: str, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert child.stdout is not None
        reader = threading.Thread(target=_pass_on, args=(name, child.stdout), name=f"lines of {name}", daemon=True)
        reader.start()
        self._readers.append(reader)
        return child


def _pass_on(name: str, lines: IO[bytes]) -> None:
    for line in lines:  # without an end: a child whose output is not read would block
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.buffer.write(with_source(name, line))
            sys.stderr.buffer.flush()


_COMMAND = (sys.executable, "-m", "fencepost.cli.main", "mirror", "run")
_LISTENERS = WorkerConfig.key_of("listeners")


def run_mirror(path: Path, names: Sequence[str], targets: Sequence[str], parent: int | None) -> int:
    """Run the flows of a file until SIGTERM or Ctrl-C. Returns the exit code.

    Args:
        names: Run only these flows, `A->B`; if empty, all.
        targets: Run only flows to these clusters; if empty, to any.
        parent: A process whose end ends this one.
    """
    configure_logs()
    try:
        find_java()
        keep_from_connectors([str(path)])
        file = MirrorFile.load(path)
        flows = chosen(file.flows(), names, targets)
        if parent is None:
            _warn(file)
        if len(flows) == 1:
            return run_flow(file, flows[0], Driver, parent)
        commands = {flow.name: _command(path, flow) for flow in flows}
        log.info("%s: %s", path, ", ".join(commands))
        return Processes(commands).run()
    except ConfigError as error:
        return refused(f"{path}: the flows of this file cannot run:", error)
    except EmbeddedKafkaError as error:
        return refused("Java is missing:", ConfigError(str(error)))


def run_flow(file: MirrorFile, flow: Flow, driver: Callable[[WorkerConfig], Driver], parent: int | None) -> int:
    """Run the worker of a flow in this process. Returns the exit code. Raises ConfigError."""
    number = [each.name for each in file.flows()].index(flow.name)
    try:
        config = WorkerConfig(with_port(flow.worker_properties(number)))
    except ConfigError as error:
        raise ConfigError([f"{flow.name}: {message}" for message in error.messages]) from None
    rivals = {
        flow.rival: f"it mirrors {flow.name} as the other type. Set connector.type back, or end all workers of the "
        f"flow and let `fencepost mirror migrate` take its positions to {flow.record_connector}"
    }
    should_end = (lambda: os.getppid() != parent) if parent is not None else (lambda: False)
    return serve_worker(driver(config), Declared(flow.connectors(), rivals), should_end)


def chosen(flows: Sequence[Flow], names: Collection[str], targets: Collection[str]) -> list[Flow]:
    """Return the flows that were asked for. Raises ConfigError for unknown names."""
    known = [flow.name for flow in flows]
    if unknown := [name for name in names if name not in known]:
        raise ConfigError([f"--flow {name}: the file runs {', '.join(known)}" for name in unknown])
    found = [flow for flow in flows if (not names or flow.name in names) and (not targets or flow.target in targets)]
    if not found:
        raise ConfigError(f"--clusters {' '.join(targets)}: no flow goes there; the file runs {', '.join(known)}")
    return found


def with_port(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's properties with a free port if they have none, as other workers send requests there."""
    listener = Listener.parse(properties[_LISTENERS])
    port = listener.port or choose_ports().client
    return {**properties, _LISTENERS: str(Listener(listener.scheme, listener.host, port))}


def _command(path: Path, flow: Flow) -> list[str]:
    return [*_COMMAND, str(path), "--flow", flow.name, "--parent", str(os.getpid())]


def _warn(file: MirrorFile) -> None:
    for key, near in file.unknown_keys():
        hint = f"; did you mean '{near}'?" if near else ""
        log.warning("The setting '%s' is unknown and has no effect%s", key, hint)
