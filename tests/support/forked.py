"""Processes that begin with their imports done: a server does them once, and is forked for each.

Importing what a worker consists of is most of what it costs to start one. The server is Python's own for
`multiprocessing`: it has one thread and has begun nothing when it is forked. Each process of tests has its own server,
which ends with it.
"""

import contextlib
import gc
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path
from typing import NoReturn

_CONTEXT = multiprocessing.get_context("forkserver")
# What cannot be imported ahead would be imported by each process. `__main__`, as each begins with its parent's.
_CONTEXT.set_forkserver_preload(
    [
        "__main__",
        "fencepost.cli.cluster.serve",
        "fencepost.cli.cluster.mirror_run",
        "fencepost.worker.host.driver",
        "fencepost.task.slot.slot",
        "pytest",
        "_pytest.assertion.rewrite",
    ]
)
# Who asks how a process ended takes the answer from a pipe; `multiprocessing` itself asks at every start.
_one_asks = threading.Lock()

Work = Callable[[list[str]], int]
_LONGEST = 1 << 17


class Forked:
    """A process that does `work` in a session of its own, and in the directory in which this process is.

    Its attributes and methods are those of `subprocess.Popen`.

    Args:
        work: does the process's work with the arguments, and returns its exit code.
        out: all that it prints is appended to this file.
        environment: what it has beside the variables of this process.
    """

    def __init__(self, work: Work, arguments: list[str], out: Path, environment: dict[str, str]) -> None:
        everything = {**os.environ, **environment}
        # A daemon: were it forgotten, this process would wait for it for ever at its own end.
        given = (work, arguments, out, everything, os.getcwd())
        self._process = _CONTEXT.Process(target=_begin, args=given, daemon=True)
        with _one_asks:
            self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        with _one_asks:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Raise subprocess.TimeoutExpired if it still runs after that many seconds."""
        connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Do nothing if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        with _one_asks:
            self._process.terminate()

    def kill(self) -> None:
        with _one_asks:
            self._process.kill()


class Nursery:
    """Forks processes that do `work`, below this process, which may have threads by then.

    It is to be made while there is one thread: a child that never has another one forks them. Each of them has a
    parent there that waits for it.
    """

    def __init__(self, work: Work) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() == 0:
            self._line.close()
            _fork_all(work, theirs)
        theirs.close()

    def fork(self, arguments: list[str], environment: dict[str, str]) -> "Born":
        """`environment`: the whole of it."""
        reader, writer = os.pipe()
        message = json.dumps([arguments, environment]).encode()
        assert len(message) <= _LONGEST
        socket.send_fds(self._line, [message], [writer])
        os.close(writer)
        return Born(reader)


class Born:
    """A process that a `Nursery` has forked."""

    def __init__(self, reader: int) -> None:
        self._told = os.fdopen(reader)
        self._pid = int(self._told.readline())

    def wait(self) -> int:
        """Wait until it has ended; returns its exit code. To be asked once."""
        with self._told:
            return int(self._told.readline() or -signal.SIGKILL)  # nothing: who waits for it was killed as well

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)


def _fork_all(work: Work, line: socket.socket) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    while True:
        message, ends, _, _ = socket.recv_fds(line, _LONGEST, 1)
        if not message:
            os._exit(0)
        if os.fork() == 0:
            line.close()
            _fork_one(work, *json.loads(message), ends[0])
        os.close(ends[0])


def _fork_one(work: Work, arguments: list[str], environment: dict[str, str], end: int) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(end)
        _do(work, arguments, environment)
    os.write(end, b"%d\n" % pid)
    os.write(end, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _begin(work: Work, arguments: list[str], out: Path, environment: dict[str, str], directory: str) -> NoReturn:
    os.setsid()
    os.chdir(directory)
    with out.open("ab", buffering=0) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    _do(work, arguments, environment)


def _do(work: Work, arguments: list[str], environment: dict[str, str]) -> NoReturn:
    from fencepost.cli.output import end_process

    gc.freeze()  # what was imported ahead stays: each collection would go through all of it
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [work.__module__, *arguments]
    code = 1
    try:
        code = work(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        end_process(code)
