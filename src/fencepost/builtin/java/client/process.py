"""The JVM of a host, and the private directory for its sockets."""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import IO

from fencepost.builtin.java.error import HostEndedError, HostKilledError, JavaUnavailableError
from fencepost.embedded.java import environment_options, giving_way
from fencepost.secret.redaction import CHANNEL_SECRET
from fencepost.telemetry.measure import hosts

log = logging.getLogger(__name__)

START_S = 120.0
"""How long a JVM may take until it answers."""

_LOOK_S = 0.1
_END_S = 10.0
_LAST_LINES_S = 10.0
_SHOWN_LINES = 20
_CRASH = "crash"
_MOST_OF_CRASH = 200_000
_CRASH_LINES = 60
_AFTER_STACKS = ("siginfo:", "Registers:", "Register to memory", "---------------")
_PREFIX = "fencepost-host-"
_OWNER = "owner"
_LONGEST = 60  # paths of sockets have at most 107 bytes
_OUT_OF_MEMORY = 3  # the exit code of ExitOnOutOfMemoryError


class HostProcess:
    """A JVM, the child of this process, which ends with the connection `events`. Thread-safe."""

    def __init__(self, command: Sequence[str], label: str, within_s: float = START_S) -> None:
        """Start the JVM and wait until it listens. `command` lacks its last argument, the directory of its sockets.

        Raises:
            JavaUnavailableError: It has ended, or does not answer `within_s`. The text has what it printed.
        """
        self.label = label
        self._killed: str | None = None
        self._ending = threading.Lock()
        self._end: str | None = None
        self._directory = SocketDirectory()
        with socket.socket(socket.AF_UNIX) as listener:
            try:
                listener.bind(str(self._directory.path / "worker"))
                listener.listen(1)
                self._process = subprocess.Popen(
                    [*self._with_crash_files(command), str(self._directory.path)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    env=_environment(),
                    encoding="utf-8",
                    errors="replace",
                    start_new_session=True,  # only this process gets a Ctrl-C of the terminal
                )
            except OSError as error:
                self.clear()
                raise JavaUnavailableError(f"the {label} (a JVM) cannot be started: {error}") from error
            hosts.started(self._process.pid)
            assert self._process.stdout is not None
            self._output = _Output(self._process.stdout, label)
            try:
                self.events = self._accept(listener, within_s)
            except BaseException:
                self.kill("it did not start")
                self.clear()
                raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def connect(self, timeout_s: float | None = None) -> socket.socket:
        """Return a new connection. Raises OSError if the JVM has ended, or TimeoutError if it does not take it."""
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(timeout_s)
            connection.connect(str(self._directory.path / "host"))
        except BaseException:
            connection.close()
            raise
        return connection

    def end(self) -> str | None:
        """Return how the JVM has ended, in a sentence; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        with self._ending:
            if self._end is None:
                self._end = self._described(code)
            return self._end

    def _described(self, code: int) -> str:
        printed = self._output.last()
        how = self._killed or (f"signal {-code} ended it" if code < 0 else f"its exit code is {code}")
        if crash := self._read_crash():
            printed = f"{printed}\n{crash}" if printed else crash
        if self.is_killed_by_others:
            how += (
                "; Linux does that where memory is short: give this machine or container more of it, or the JVM less "
                "with java.host.options, such as -Xmx512m"
            )
        if code == _OUT_OF_MEMORY and "OutOfMemoryError" in printed:
            how += "; give it more memory with java.host.options, such as -Xmx4g"
        return f"the {self.label} (a JVM) has ended: {how}" + (f". It printed:\n{printed}" if printed else "")

    def await_end(self) -> str:
        """Return how the JVM has ended, whose connection is gone; one that has not ended by now is killed."""
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill("its connection ended, and it did not")
        return self.end() or "it has ended"

    def end_soon(self) -> str | None:
        """Return how the JVM has ended, one of whose connections is gone; None if it goes on."""
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return None
        return self.end()

    def ended(self, how: str) -> HostEndedError:
        """Return the error for who used the JVM, which has ended as `how` says."""
        return HostKilledError(how) if self.is_killed_by_others else HostEndedError(how)

    @property
    def is_killed_by_others(self) -> bool:
        return self._killed is None and self._process.returncode == -signal.SIGKILL

    def kill(self, why: str) -> None:
        """Send SIGKILL and wait. Does nothing if the JVM has ended."""
        if self._process.poll() is None:
            self._killed = self._killed or f"it was killed, because {why}"
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def terminate(self, timeout_s: float) -> int:
        """Let the JVM end in good order, and return its exit code. Raises TimeoutExpired."""
        self._process.terminate()
        return self._process.wait(timeout_s)

    def clear(self) -> None:
        """Remove the directory of the sockets."""
        self._directory.remove()

    def _with_crash_files(self, command: Sequence[str]) -> list[str]:
        """Return the command with which Java writes nothing of a crash to our working directory."""
        java, *options = command
        own = self._directory.path
        files = [f"-XX:ErrorFile={own / _CRASH}", f"-XX:ReplayDataFile={own / 'replay'}"]
        return [java, *giving_way(files, environment_options()), *options]

    def _read_crash(self) -> str:
        """Return what Java says of the thread that has crashed; empty if none has, or a user's option says where."""
        try:
            with (self._directory.path / _CRASH).open(errors="replace") as file:
                return crashed_thread(file.read(_MOST_OF_CRASH))
        except OSError:
            return ""

    def _accept(self, listener: socket.socket, within_s: float) -> socket.socket:
        deadline = time.monotonic() + within_s
        listener.settimeout(_LOOK_S)
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            connection.setblocking(True)
            return connection
        raise JavaUnavailableError(self.end() or f"the {self.label} (a JVM) did not answer within {within_s:g} s")


class _Output:
    """What a JVM prints: a thread logs it."""

    def __init__(self, lines: IO[str], label: str) -> None:
        self._last: deque[str] = deque(maxlen=_SHOWN_LINES)
        self._reader = threading.Thread(target=self._read, args=(lines, label), name=f"output of {label}", daemon=True)
        self._reader.start()

    def last(self) -> str:
        """Return the last lines of a JVM that has ended. A process of a plug-in's may still have the pipe."""
        self._reader.join(_LAST_LINES_S)
        return "\n".join(self._last)

    def _read(self, lines: IO[str], label: str) -> None:
        with lines:
            for line in lines:
                self._last.append(line.rstrip())
                log.info("%s printed: %s", label, line.rstrip())


def crashed_thread(report: str) -> str:
    """Return which thread has crashed and where it was, by Java's report (`hs_err`): no options, no environment."""
    _, begins, found = report.partition("\nCurrent thread")
    lines = takewhile(lambda line: not line.startswith(_AFTER_STACKS), f"{begins}{found}".splitlines())
    return "\n".join([line for line in lines if line.strip()][:_CRASH_LINES])


def _environment() -> dict[str, str]:
    """Return our environment, with a locale in which Java finds files with any name, and one heap for C code.

    Plug-ins do not get the secret with which their slot calls the worker.
    """
    has_locale = any(os.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    found = {"MALLOC_ARENA_MAX": "1", **os.environ}
    found.pop(CHANNEL_SECRET, None)
    return found if has_locale else {**found, "LC_ALL": "C.UTF-8"}


class SocketDirectory:
    """A new directory, in which this process has locked a file as long as it lives and has not removed it.

    A process that is killed leaves its directory behind. The next one of the same user removes it.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent or Path("/tmp" if len(tempfile.gettempdir()) > _LONGEST else tempfile.gettempdir())
        for each in self._parent.glob(f"{_PREFIX}*"):
            _remove_if_abandoned(each)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent))
        self._owner = os.open(self.path / "new", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._owner, fcntl.LOCK_EX)
        os.rename(self.path / "new", self.path / _OWNER)  # nobody else ever sees it without a lock

    def remove(self) -> None:
        """Remove the directory. Does nothing the second time."""
        shutil.rmtree(self.path, ignore_errors=True)
        owner, self._owner = self._owner, -1
        if owner >= 0:
            os.close(owner)


def _remove_if_abandoned(path: Path) -> None:
    """Remove a directory of this user whose owner is no more; one without the file of an owner is just being made."""
    with contextlib.suppress(OSError):
        if path.is_symlink() or path.lstat().st_uid != os.geteuid():
            return
        owner = os.open(path / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: the owner lives
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(owner)
