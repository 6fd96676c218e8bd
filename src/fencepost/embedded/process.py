"""A child process that cannot outlive us."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fencepost.embedded import guard


class GuardedProcess:
    """Runs a command under `guard`; it is killed when this process ends, whatever ends it.

    The command gets a session of its own: a Ctrl-C at the terminal is ours to handle first.
    """

    def __init__(
        self, command: list[str], output: Path, remove_with_us: Path | None = None, keep_open: Sequence[int] = ()
    ) -> None:
        """Start it.

        Args:
            command: an absolute path and arguments.
            output: gets what it prints, from the beginning.
            remove_with_us: deleted by the guard if this process dies before stopping the command.
            keep_open: file descriptors that the command inherits, such as one that holds a lock.
        """
        launcher = [sys.executable, "-I", "-S", guard.__file__, str(os.getpid()), str(remove_with_us or "")]
        with output.open("wb") as file:
            self._guard = subprocess.Popen(
                [*launcher, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
                pass_fds=keep_open,
            )
        assert self._guard.stdout is not None
        with self._guard.stdout as announced:
            self.pid = int(announced.readline() or 0)

    @property
    def exit_code(self) -> int | None:
        """Return None while it runs, then its exit code: 128 + n if signal n ended it."""
        return self._guard.poll()

    def terminate(self, timeout_s: float) -> None:
        """Ask it to end (SIGTERM), kill it if it has not within the time; returns when it is gone."""
        self._order(guard.STOP)
        try:
            self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        self._order(guard.KILL)
        self._guard.wait()
        self._close()

    def _order(self, order: bytes) -> None:
        with suppress(BrokenPipeError, ValueError):  # it ended by itself; the pipe is closed already
            assert self._guard.stdin is not None
            self._guard.stdin.write(order)
            self._guard.stdin.flush()

    def _close(self) -> None:
        with suppress(BrokenPipeError):
            assert self._guard.stdin is not None
            self._guard.stdin.close()
