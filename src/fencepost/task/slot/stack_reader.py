"""The process below a slot that reads where the slot's threads are, and sends that to the worker (`watchdog.py`).

It is a program of its own, `python -m fencepost.task.slot.stack_reader`, and imports nothing but the standard library
until there is something to send: a process that is forked from the slot would be several times as large.
"""

import contextlib
import ctypes
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import NamedTuple

MOVES = b"moves\n"  # after a dump: it was a pause
_MOST_BYTES = 1 << 20
SIGNAL = signal.SIGRTMAX - 1  # nobody uses it, and system calls go on after it
_TASK = re.compile(rb"^task (0x[0-9a-f]+) (\d+) (\S+)$")
_STACK = b"Stack ("
_THREAD = re.compile(rb"^Thread (0x[0-9a-f]+) ")
_QUIET_S = 0.3  # at least: after that a dump, which is written in pieces, is whole
_QUIET = 0.4  # of the time after which a process is late: to wait for `MOVES`
_LOOK_S = 0.002  # whether a thread has written its stack
_MOST_TEXT = 8_000

Send = Callable[[Mapping[str, str]], None]


def command(after_s: float, channel_url: str, slot: str, attempt: str) -> list[str]:
    """Return the command that starts the process of a slot; the channel's secret is in its environment (E11)."""
    return [sys.executable, "-m", "fencepost.task.slot.stack_reader", str(after_s), channel_url, slot, attempt]


def main(after_s: str, channel_url: str, slot: str, attempt: str) -> None:
    """Send the dumps that arrive on the standard input, until it ends."""
    Reader(os.getppid(), 0, lambda stacks: _send(channel_url, slot, attempt, stacks), quiet_s(float(after_s))).pass_on()


def quiet_s(after_s: float) -> float:
    """Return how long a dump is waited for to end, of a process that is late `after_s` seconds after its last turn."""
    return max(_QUIET_S, _QUIET * after_s)


def _send(channel_url: str, slot: str, attempt: str, stacks: Mapping[str, str]) -> None:
    """Send stacks to the worker, once; a worker that cannot be reached will miss the slot anyway."""
    from fencepost.task.channel.client import ChannelClient, ChannelError
    from fencepost.task.channel.message import Path, Stacks

    with contextlib.suppress(ChannelError):
        ChannelClient(channel_url).call(Path.SLOT_STACKS, Stacks(slot, attempt, stacks).to_json(), timeout_s=5.0)


class _Task(NamedTuple):
    """A task, and the system's number of its thread."""

    incarnation: str
    native_id: int


Tasks = dict[bytes, _Task]
"""By `Thread.ident`, in base 16."""


@dataclass
class Reader:
    """Reads dumps of the process `pid` from `reading`, and sends their stacks to the worker."""

    pid: int
    reading: int
    send: Send
    quiet_s: float
    tasks: Tasks = field(default_factory=dict)

    def pass_on(self) -> None:
        """Send dumps until the pipe ends."""
        data = b""
        while more := os.read(self.reading, 65_536):
            data = (data + more)[-_MOST_BYTES:]
            if self._goes_on(self.quiet_s):
                continue
            before, _, dump = data.rpartition(MOVES)
            data = b""
            stacks_of(before, self.tasks)
            stacks = stacks_of(dump, self.tasks)
            if stacks is not None:
                data = self._others(stacks)
                if MOVES not in data and stacks:
                    self.send(stacks)

    def _goes_on(self, within_s: float) -> bool:
        return bool(select.select([self.reading], [], [], within_s)[0])

    def _others(self, stacks: dict[str, str]) -> bytes:
        """Add the stacks of the tasks that the dump has left out. Returns what else was read meanwhile."""
        for task in [task for task in self.tasks.values() if task.incarnation not in stacks]:
            if not _signal(self.pid, task.native_id):
                continue  # the thread has ended
            if not self._is_handled(task.native_id):
                break  # the process is paused, or the thread has blocked the signal
            said = b""
            while self._goes_on(0) and (more := os.read(self.reading, 65_536)):
                said += more
            lines = said.splitlines(keepends=True)
            if any(line == MOVES or _TASK.match(line.rstrip()) for line in lines):
                return said  # the process moves, or a task has begun
            own = list(dropwhile(lambda line: not line.startswith(_STACK), lines))  # after what was left of the dump
            if own:
                stacks[task.incarnation] = _text(line.rstrip() for line in own[1:])
        return b""

    def _is_handled(self, thread: int) -> bool:
        """Wait until a thread has dumped its stack: the signal is pending before, and blocked meanwhile."""
        until_s = time.monotonic() + self.quiet_s
        while _has_signal(self.pid, thread):
            if time.monotonic() > until_s:
                return False
            time.sleep(_LOOK_S)
        return True


def _has_signal(pid: int, thread: int) -> bool:
    """Say whether a thread has the signal before it, or is inside its handler; no thread has none."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/status", "rb") as status:
        masks = (int(line.split()[1], 16) for line in status if line.startswith((b"SigPnd:", b"SigBlk:")))
        return any(mask >> (SIGNAL - 1) & 1 for mask in masks)
    return False


def _signal(pid: int, thread: int) -> bool:
    """Have a thread dump its stack. Returns whether there is such a thread."""
    send = getattr(ctypes.CDLL(None), "tgkill", None)  # glibc's, from 2.30 on
    return send is not None and send(pid, thread, SIGNAL) == 0


def stacks_of(dump: bytes, tasks: Tasks) -> dict[str, str] | None:
    """Return the stack of each task in a dump, innermost call first; None if the text is no dump.

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


if __name__ == "__main__":
    main(*sys.argv[1:])
