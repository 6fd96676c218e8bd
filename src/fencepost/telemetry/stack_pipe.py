"""A pipe for the stacks of a process that stands still, which another process reads meanwhile."""

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Mapping, Sequence

_CAPACITY = 1 << 20
_END_S = 1.0


class StackPipe:
    """Never blocks who writes: what a full pipe does not take is lost."""

    def __init__(
        self,
        reader: Sequence[str],
        *,
        stdout: int = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
        start_new_session: bool = False,
    ) -> None:
        """Start the process that reads the pipe as its standard input: `reader` is its command.

        It ends with this process, as the pipe does then.
        """
        reading, self.writing = os.pipe()
        os.set_blocking(self.writing, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.writing, fcntl.F_SETPIPE_SZ, _CAPACITY)
        try:
            self._reader = subprocess.Popen(
                reader, stdin=reading, stdout=stdout, env=env, start_new_session=start_new_session
            )
        except BaseException:
            os.close(self.writing)
            raise
        finally:
            os.close(reading)

    @property
    def reader_pid(self) -> int:
        """Return the id of the process that reads."""
        return self._reader.pid

    def write(self, line: bytes) -> None:
        """Write a line, unless whoever would read it is gone, or does not read."""
        with contextlib.suppress(OSError):
            os.write(self.writing, line)

    def kill_reader(self) -> None:
        """End the process that reads."""
        if self._reader.poll() is None:
            self._reader.kill()
        self._reader.wait()

    def close(self) -> None:
        """Close the pipe. The process that reads has a moment for what it has not read."""
        os.close(self.writing)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._reader.wait(_END_S)
        self.kill_reader()  # it may not see the pipe's end, as forks of this process have it, too
