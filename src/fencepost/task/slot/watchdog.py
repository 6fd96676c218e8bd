"""Tells the worker where the threads of a slot are if all of them stand still.

A call that holds Python's interpreter lock, such as a regular expression that backtracks for hours, stops every thread
of the process: no task moves, and no report or heartbeat leaves it. Python's fault handler has a thread in C that needs
no lock. It writes the stacks of all threads to a pipe; a small process below the slot (`stack_reader.py`) reads
them there and sends them to the worker.

The fault handler names a hundred threads at most, the newest. Those of other tasks get a signal each, one after the
other, on which the fault handler writes the stack of the thread that has got it.

A process that was paused (SIGSTOP, a frozen container) is also late, but moves again at once: it then says so in the
pipe, and nothing is sent.
"""

import contextlib
import faulthandler
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Sequence

from fencepost.task.slot.stack_reader import MOST_BYTES, MOVES, SIGNAL
from fencepost.telemetry.lock_watch import LockWatch


class Watchdog:
    """Dumps the stacks of this process when its own thread could not run for `after_s`."""

    def __init__(self, after_s: float, reader: Sequence[str]) -> None:
        """Start the process that reads the stacks from its standard input: `reader` is its command.

        That process ends with this one, as its pipe does. It imports what this one can.
        """
        reading, self._writing = os.pipe()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        try:
            self._reader = subprocess.Popen(reader, stdin=reading, stdout=subprocess.DEVNULL, env=environment)
        except BaseException:
            os.close(self._writing)
            raise
        finally:
            os.close(reading)
        faulthandler.register(SIGNAL, file=self._writing, all_threads=False)
        os.set_blocking(self._writing, False)  # a full pipe must stop neither this process nor its fault handler
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, MOST_BYTES)
        self._watch = LockWatch(after_s, self._writing, lambda _: self._write(MOVES))

    @property
    def reader_pid(self) -> int:
        """Return the id of the process that reads the stacks."""
        return self._reader.pid

    def start(self) -> None:
        """Watch from now on."""
        self._watch.start()

    def names(self, thread: threading.Thread, incarnation: str) -> None:
        """Say which task runs in a thread that has been started."""
        self._write(f"task {thread.ident:#x} {thread.native_id} {incarnation}\n".encode())

    def close(self) -> None:
        """Stop watching, and end the other process."""
        self._watch.close()
        if self._reader.poll() is None:  # it may not see the pipe's end: a task's forks have it, too
            self._reader.kill()
        self._reader.wait()
        faulthandler.unregister(SIGNAL)  # without its handler, a signal would end this process
        os.close(self._writing)

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # whoever would read it is gone, or does not read
            os.write(self._writing, line)
