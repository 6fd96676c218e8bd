"""Child processes that live and end together, in the foreground."""

import contextlib
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import IO

from fencepost.telemetry.plain_line import with_source

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
