"""Sends the stacks of a slot's threads to the worker if none of them can run.

A call that holds Python's interpreter lock, such as a regular expression that backtracks for hours, stops every thread
of the process: no task moves, and no report or heartbeat leaves it. Python's fault handler has a thread in C that needs
no lock. It writes the stacks of all threads to a pipe; a small process below the slot (`stack_reader.py`) reads
them there and sends them to the worker.

The fault handler names a hundred threads at most, the newest. Those of other tasks get a signal each, one after the
other, on which the fault handler writes the stack of the thread that has got it.

A process that was paused (SIGSTOP, a frozen container) is also late, but moves again at once: it then says so in the
pipe, and nothing is sent.
"""

import faulthandler
import os
import sys
import threading
from collections.abc import Sequence

from fencepost.task.slot.stack_reader import MOVES, SIGNAL
from fencepost.telemetry.lock_watch import LockWatch, StackPipe


class Watchdog:
    """Dumps the stacks of this process when its own thread could not run for `after_s`."""

    def __init__(self, after_s: float, reader: Sequence[str]) -> None:
        """Start the process that reads the stacks from its standard input: `reader` is its command.

        That process ends with this one, as its pipe does. It imports what this one can.
        """
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._pipe = StackPipe(reader, env=environment)
        faulthandler.register(SIGNAL, file=self._pipe.writing, all_threads=False)
        self._watch = LockWatch(after_s, self._pipe.writing, lambda _: self._pipe.write(MOVES))

    @property
    def reader_pid(self) -> int:
        """Return the id of the process that reads the stacks."""
        return self._pipe.reader_pid

    def start(self) -> None:
        """Watch from now on."""
        self._watch.start()

    def names(self, thread: threading.Thread, incarnation: str) -> None:
        """Say which task runs in a thread that has been started."""
        self._pipe.write(f"task {thread.ident:#x} {thread.native_id} {incarnation}\n".encode())

    def close(self) -> None:
        """Stop watching, and end the other process."""
        self._watch.close()
        self._pipe.kill_reader()
        faulthandler.unregister(SIGNAL)  # without its handler, a signal would end this process
        self._pipe.close()
