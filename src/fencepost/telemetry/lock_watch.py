"""Says where all threads of a process are while a call holds Python's interpreter lock, which stops every one of them.

A regular expression that backtracks for hours does that, or native code. Python's fault handler has a thread in C that
needs no lock; as long as the process moves, a thread of Python's puts it off.
"""

import contextlib
import faulthandler
import fcntl
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import IO

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


log = logging.getLogger(__name__)

_TURN = 0.2  # of the time after which a process is late: between two turns
_AFTER_S = 10.0


class LockWatch:
    """Has the stacks of this process written to a file when its own thread could not run for `after_s`."""

    def __init__(self, after_s: float, file: int, moves: Callable[[float], None]) -> None:
        """`moves` is called with the seconds for which nothing moved, if that was half of `after_s` or more.

        Writing to `file` must not block: the fault handler is put off with the interpreter lock held, and that waits
        until it has written, so a file that blocks would stop every thread for good.
        """
        self._after_s = after_s
        self._file = file
        self._moves = moves
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lock-watch", daemon=True)

    def start(self) -> None:
        """Watch from now on, in a thread that does nothing else: one that waits for something would be late."""
        faulthandler.dump_traceback_later(self._after_s, file=self._file)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        faulthandler.cancel_dump_traceback_later()

    def _watch(self) -> None:
        last_s = time.monotonic()
        while True:
            faulthandler.dump_traceback_later(self._after_s, file=self._file)
            stood_s = time.monotonic() - last_s
            if stood_s > self._after_s / 2:
                self._moves(stood_s)
            last_s = time.monotonic()
            if self._over.wait(self._after_s * _TURN):
                return


@contextmanager
def watch_of_worker(stderr: IO[str], after_s: float = _AFTER_S) -> Iterator[None]:
    """Watch a worker's process, whose log goes to `stderr`, meanwhile.

    The stacks are there as the fault handler writes them, a line for each call, while everything stands still. They
    have no values. A small process passes them on, so that nothing here waits for whoever reads `stderr`. A line of the
    log follows if the process moves again. Without that process, the worker runs unwatched.
    """

    def moves(stood_s: float) -> None:
        if stood_s >= after_s:
            log.warning(
                "all threads of this process stood still for %.0f s: a call held Python's interpreter lock, or the "
                "process was paused. Change the call that held it: the stacks of all threads at that time are in the "
                "standard error, near this line",
                stood_s,
            )

    try:  # a session of its own: Ctrl-C in a terminal would end it before the worker has ended
        stacks = StackPipe(["cat"], stdout=stderr.fileno(), start_new_session=True)
    except OSError as error:
        log.warning("calls that hold Python's interpreter lock will not be named: %s", error)
        yield
        return
    with closing(stacks) as pipe:
        watch = LockWatch(after_s, pipe.writing, moves)
        watch.start()
        try:
            yield
        finally:
            watch.close()
