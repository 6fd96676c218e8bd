"""A child process that cannot outlive this one."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fencepost.embedded import guard


class GuardedProcess:
    """Runs a command under `guard`, which kills it when this process ends for any reason.

    The command gets its own session, so that only this process gets a Ctrl-C of the terminal.
    """

    def __init__(
        self, command: list[str], output: Path, remove_with_us: Path | None = None, keep_open: Sequence[int] = ()
    ) -> None:
        """Start the command.

        Args:
            command: An absolute path and arguments.
            output: The file for the command's output. It is overwritten.
            remove_with_us: A directory that the guard deletes if this process dies before it has stopped the command.
            keep_open: File descriptors that the command inherits, such as one that holds a lock.
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
        """Return None while the command runs, then its exit code: 128 + n if signal n ended it."""
        return self._guard.poll()

    def terminate(self, timeout_s: float) -> None:
        """Send SIGTERM, and kill the command if it does not end in time. Returns when it has ended."""
        self._order(guard.STOP)
        try:
            self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()

    def kill(self) -> None:
        """Send SIGKILL. Returns when the command has ended."""
        self._order(guard.KILL)
        self._guard.wait()
        self._close()

    def _order(self, order: bytes) -> None:
        with suppress(BrokenPipeError, ValueError):  # it has ended by itself, and the pipe is closed
            assert self._guard.stdin is not None
            self._guard.stdin.write(order)
            self._guard.stdin.flush()

    def _close(self) -> None:
        with suppress(BrokenPipeError):
            assert self._guard.stdin is not None
            self._guard.stdin.close()
