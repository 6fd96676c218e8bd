"""The process between its parent and the broker. It ends the broker when the parent dies.

`GuardedProcess` runs it as a script. It imports only what it needs, because it stays as long as the broker does. Its
standard input is a pipe that only the parent holds. A byte on it is an order; its end means that the parent has died,
for whatever reason. A forked child of the parent could hold a copy of the pipe and hide that, so the guard also checks
its parent's id. On Linux the kernel kills the broker if the guard dies.

usage: guard.py PARENT_PID DIRECTORY_TO_REMOVE_WITH_THE_PARENT COMMAND...
"""

import os
import select
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

STOP = b"T"
KILL = b"K"
_PARENT_CHECK_S = 1.0
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Run the command, print its process id, and follow the orders of the pipe. Returns the command's exit code."""
    parent, directory, command = int(arguments[0]), arguments[1], arguments[2:]
    wakeup = _wake_on_signals()
    child = _spawn(command)
    os.write(1, b"%d\n" % child)
    os.close(1)
    status = _watch(child, parent, wakeup)
    if status is None:
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        _remove(directory)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _wake_on_signals() -> int:
    """Return a pipe that gets the number of each SIGCHLD and SIGTERM. SIGINT and SIGHUP are ignored."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return reader


def _spawn(command: list[str]) -> int:
    prctl = _prctl()
    guard = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == guard:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            os.execv(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error}\n".encode())
    finally:
        os._exit(127)


def _prctl() -> "Callable[..., int] | None":
    """Return Linux's prctl; None on other systems. This runs before the fork, when importing is safe."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl: Callable[..., int] = ctypes.CDLL(None).prctl
    return prctl


def _watch(child: int, parent: int, wakeup: int) -> int | None:
    """Follow orders until the child has ended, and return its wait status; None as soon as the parent is gone."""
    while True:
        readable, _, _ = select.select([0, wakeup], [], [], _PARENT_CHECK_S)
        if os.getppid() != parent:
            return None
        if wakeup in readable:
            numbers = os.read(wakeup, 64)
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
            if signal.SIGTERM in numbers:
                os.kill(child, signal.SIGTERM)
        if 0 in readable:
            orders = os.read(0, 64)
            if not orders:
                return None
            os.kill(child, signal.SIGKILL if KILL in orders else signal.SIGTERM)


def _remove(directory: str) -> None:
    if directory:
        import shutil

        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
