"""Tells the worker where the threads of a slot are if all of them stand still.

A call that holds Python's interpreter lock, such as a regular expression that backtracks for hours, stops every thread
of the process: no task moves, and no report or heartbeat leaves it. Python's fault handler has a thread in C that needs
no lock. It writes the stacks of all threads to a pipe; a small process, forked before the slot's first thread, reads
them there and sends them to the worker.

The fault handler names a hundred threads at most, the newest. Those of other tasks get a signal each, one after the
other, on which the fault handler writes the stack of the thread that has got it.

A process that was paused (SIGSTOP, a frozen container) is also late, but moves again at once: it then says so in the
pipe, and nothing is sent.
"""

import contextlib
import ctypes
import faulthandler
import fcntl
import os
import re
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from fencepost.task.channel.client import ChannelClient, ChannelError
from fencepost.task.channel.message import Path, Stacks

_TASK = re.compile(rb"^task (0x[0-9a-f]+) (\d+) (\S+)$")
_STACK = b"Stack ("
_THREAD = re.compile(rb"^Thread (0x[0-9a-f]+) ")
_MOVES = b"moves\n"  # after a dump: it was a pause
_QUIET_S = 0.3  # at least: after that a dump, which is written in pieces, is whole
_QUIET, _TURN = 0.4, 0.2  # of the time after which a process is late: to wait for `_MOVES`, and between two turns
_ONE_S = 0.03  # the same for the stack of one thread
_SIGNAL = signal.SIGRTMAX - 1  # nobody uses it, and system calls go on after it
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
            _serve(_Reader(os.getppid(), 3, send, max(_QUIET_S, _QUIET * after_s)), reading)
        os.close(reading)
        faulthandler.register(_SIGNAL, file=self._writing, all_threads=False)
        os.set_blocking(self._writing, False)  # a full pipe must stop neither this process nor its fault handler
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, _MOST_BYTES)

    def start(self) -> None:
        """Watch from now on, in a thread that does nothing else: one that waits for the worker would be late."""
        self._thread.start()

    def names(self, thread: threading.Thread, incarnation: str) -> None:
        """Say which task runs in a thread that has been started."""
        self._write(f"task {thread.ident:#x} {thread.native_id} {incarnation}\n".encode())

    def close(self) -> None:
        """Stop watching, and end the other process."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        with contextlib.suppress(ChildProcessError):  # it may not see the pipe's end: a task's forks have it, too
            if os.waitpid(self._pid, os.WNOHANG) == (0, 0):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
        faulthandler.unregister(_SIGNAL)  # without its handler, a signal would end this process
        os.close(self._writing)

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


class _Task(NamedTuple):
    """A task, and the system's number of its thread."""

    incarnation: str
    native_id: int


Tasks = dict[bytes, _Task]
"""By `Thread.ident`, in base 16."""


@dataclass
class _Reader:
    """The other process: what it reads from `reading`, and whom it sends stacks of the process `pid` to."""

    pid: int
    reading: int
    send: Send
    quiet_s: float
    tasks: Tasks = field(default_factory=dict)

    def pass_on(self) -> None:
        """Send what is dumped until the pipe ends."""
        data = b""
        while more := os.read(self.reading, 65_536):
            data = (data + more)[-_MOST_BYTES:]
            if self._goes_on(self.quiet_s):
                continue
            before, _, dump = data.rpartition(_MOVES)
            data = b""
            stacks_of(before, self.tasks)
            stacks = stacks_of(dump, self.tasks)
            if stacks is not None:
                data = self._others(stacks)
                if _MOVES not in data and stacks:
                    self.send(stacks)

    def _goes_on(self, within_s: float) -> bool:
        return bool(select.select([self.reading], [], [], within_s)[0])

    def _others(self, stacks: dict[str, str]) -> bytes:
        """Add the stacks of the tasks that the dump has left out. Returns what else was read meanwhile."""
        for task in [task for task in self.tasks.values() if task.incarnation not in stacks]:
            if not _signal(self.pid, task.native_id):
                continue  # the thread has ended
            if not self._goes_on(self.quiet_s):
                break  # the process is paused, or the thread has blocked the signal
            said = b""
            while self._goes_on(_ONE_S) and (more := os.read(self.reading, 65_536)):
                said += more
            if not said.startswith(_STACK):  # the process moves, or a task has begun
                return said
            stacks[task.incarnation] = _text(said.splitlines()[1:])
        return b""


def _serve(reader: _Reader, reading: int) -> NoReturn:
    """Read until the pipe ends. All else that was inherited is closed: others wait for its end."""
    try:
        if reading != reader.reading:
            os.dup2(reading, reader.reading)
        os.closerange(reader.reading + 1, os.sysconf("SC_OPEN_MAX"))
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1):
            os.dup2(null, standard)
        os.close(null)
        reader.pass_on()
    finally:
        os._exit(0)


def _signal(pid: int, thread: int) -> bool:
    """Have a thread dump its stack. Returns whether there is such a thread."""
    send = getattr(ctypes.CDLL(None), "tgkill", None)  # glibc's, from 2.30 on
    return send is not None and send(pid, thread, _SIGNAL) == 0


def stacks_of(dump: bytes, tasks: Tasks) -> dict[str, str] | None:
    """Return the stack of each task in a dump, innermost call first; None if it is none.

    `tasks` are those of threads, and is kept up.
    """
    found: dict[str, list[bytes]] = {}
    current: list[bytes] | None = None
    is_dump = False
    for line in dump.splitlines():
        if named := _TASK.match(line):
            tasks[_number(named[1])] = _Task(named[3].decode(), int(named[2]))
        elif thread := _THREAD.match(line):
            is_dump, task = True, tasks.get(_number(thread[1]))
            current = None if task is None else found.setdefault(task.incarnation, [])
        elif current is not None and line.startswith(b"  "):
            current.append(line)
    return {task: _text(lines) for task, lines in found.items()} if is_dump else None


def _text(lines: Iterable[bytes]) -> str:
    return "\n".join(line.decode(errors="replace") for line in lines if line.startswith(b"  "))[:_MOST_TEXT]


def _number(text: bytes) -> bytes:
    """Return a number in base 16 without the zeros before it, which the fault handler writes."""
    return b"%x" % int(text, 16)
