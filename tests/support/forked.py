"""Processes that begin with their imports done: a server does them once, and is forked for each.

Importing what a worker consists of is most of what it costs to start one. The server is Python's own for
`multiprocessing`: it has one thread and has begun nothing when it is forked. Each process of tests has its own server,
which ends with it.
"""

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from multiprocessing import connection
from pathlib import Path

_CONTEXT = multiprocessing.get_context("forkserver")
# What cannot be imported ahead would be imported by each process. `__main__`, as each begins with its parent's.
_CONTEXT.set_forkserver_preload(
    [
        "__main__",
        "fencepost.cli.serve",
        "fencepost.cli.mirror",
        "fencepost.worker.driver",
        "fencepost.task.slot",
        "pytest",
        "_pytest.assertion.rewrite",
    ]
)
# Who asks how a process ended takes the answer from a pipe; `multiprocessing` itself asks at every start.
_one_asks = threading.Lock()


class Forked:
    """A process that does `work` in a session of its own. Its attributes and methods are those of `subprocess.Popen`.

    Args:
        work: does the process's work with the arguments, and returns its exit code.
        out: all that it prints is appended to this file.
        environment: what it has beside the variables of this process.
    """

    def __init__(
        self, work: Callable[[list[str]], int], arguments: list[str], out: Path, environment: dict[str, str]
    ) -> None:
        everything = {**os.environ, **environment}
        # A daemon: were it forgotten, this process would wait for it for ever at its own end.
        self._process = _CONTEXT.Process(target=_begin, args=(work, arguments, out, everything), daemon=True)
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


def _begin(work: Callable[[list[str]], int], arguments: list[str], out: Path, environment: dict[str, str]) -> None:
    from fencepost.cli.ending import end_process

    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [work.__module__, *arguments]
    with out.open("ab", buffering=0) as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    end_process(work(arguments))
