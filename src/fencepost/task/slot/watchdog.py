"""Tells the worker where the threads of a slot are if all of them stand still.

A call that holds Python's interpreter lock, such as a regular expression that backtracks for hours, stops every thread
of the process: no task moves, and no report or heartbeat leaves it. Python's fault handler has a thread in C that needs
no lock. It writes the stacks of all threads to a pipe; a small process, forked before the slot's first thread, reads
them there and sends them to the worker.

A process that was paused (SIGSTOP, a frozen container) is also late, but moves again at once: it then says so in the
pipe, and nothing is sent.
"""

import contextlib
import faulthandler
import fcntl
import os
import re
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from fencepost.task.channel.client import ChannelClient, ChannelError
from fencepost.task.channel.message import Path, Stacks

_TASK = re.compile(rb"^task (0x[0-9a-f]+) (\S+)$")
_THREAD = re.compile(rb"^Thread (0x[0-9a-f]+) ")
_MOVES = b"moves\n"  # after a dump: it was a pause
_QUIET_S = 0.3  # at least: after that a dump, which is written in pieces, is whole
_QUIET, _TURN = 0.4, 0.2  # of the time after which a process is late: to wait for `_MOVES`, and between two turns
_MOST_BYTES = 1 << 20
_MOST_TEXT = 8_000

Send = Callable[[Mapping[str, str]], None]


class Watchdog:
    """Dumps the stacks of this process when its own thread could not run for `after_s`."""

    def __init__(self, after_s: float, send: Send) -> None:
        """Fork the process that calls `send` with the stack of each task, by incarnation. No thread may run yet.

        That process ends with this one, as its pipe does.
        """
        self._after_s = after_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="slot-watchdog", daemon=True)
        reading, self._writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _serve(reading, send, max(_QUIET_S, _QUIET * after_s))
        os.close(reading)
        os.set_blocking(self._writing, False)  # a full pipe must stop neither this process nor its fault handler
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, _MOST_BYTES)

    def start(self) -> None:
        """Watch from now on, in a thread that does nothing else: one that waits for the worker would be late."""
        self._thread.start()

    def names(self, thread: int, incarnation: str) -> None:
        """Say which task runs in a thread, by `Thread.ident`."""
        self._write(f"task {thread:#x} {incarnation}\n".encode())

    def close(self) -> None:
        """Stop watching, and end the other process."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        os.close(self._writing)
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(self._pid, os.WNOHANG) == (0, 0):  # it may not see the pipe's end: a task's forks have it too
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)

    def _watch(self) -> None:
        last_s = time.monotonic()
        while True:
            faulthandler.dump_traceback_later(self._after_s, file=self._writing)
            now_s = time.monotonic()
            if now_s - last_s > self._after_s / 2:
                self._write(_MOVES)
            last_s = now_s
            if self._over.wait(self._after_s * _TURN):
                faulthandler.cancel_dump_traceback_later()
                return

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # whoever would read it is gone, or does not read
            os.write(self._writing, line)


def sender(channel_url: str, slot: str, attempt: str) -> Send:
    """Return what sends stacks to the worker, once; a worker that cannot be reached will miss the slot anyway."""

    def send(stacks: Mapping[str, str]) -> None:
        with contextlib.suppress(ChannelError):
            ChannelClient(channel_url).call(Path.SLOT_STACKS, Stacks(slot, attempt, stacks).to_json(), timeout_s=5.0)

    return send


def _serve(reading: int, send: Send, quiet_s: float) -> NoReturn:
    """Send what is dumped until the pipe ends. All else that was inherited is closed: others wait for its end."""
    try:
        if reading != 3:
            os.dup2(reading, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):
            os.dup2(null, standard)
        os.close(null)
        _pass_on(3, send, quiet_s)
    finally:
        os._exit(0)


def _pass_on(reading: int, send: Send, quiet_s: float) -> None:
    tasks: dict[bytes, str] = {}
    data = b""
    while more := os.read(reading, 65_536):
        data = (data + more)[-_MOST_BYTES:]
        if select.select([reading], [], [], quiet_s)[0]:
            continue
        before, _, dump = data.rpartition(_MOVES)
        data = b""
        stacks_of(before, tasks)
        if stacks := stacks_of(dump, tasks):
            send(stacks)


def stacks_of(dump: bytes, tasks: dict[bytes, str]) -> dict[str, str]:
    """Return the stack of each task in a dump, innermost call first. `tasks` are those of threads; it is kept up."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in dump.splitlines():
        if named := _TASK.match(line):
            tasks[_number(named[1])] = named[2].decode()
        elif thread := _THREAD.match(line):
            task = tasks.get(_number(thread[1]))
            current = None if task is None else found.setdefault(task, [])
        elif current is not None and line.startswith(b"  "):
            current.append(line.decode(errors="replace"))
    return {task: "\n".join(lines)[:_MOST_TEXT] for task, lines in found.items()}


def _number(text: bytes) -> bytes:
    """Return a number in base 16 without the zeros before it, which the fault handler writes."""
    return b"%x" % int(text, 16)
