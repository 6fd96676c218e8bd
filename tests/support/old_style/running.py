"""A program of the old style as a child process: its output, and what is done to it."""

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from fencepost.testing import eventually
from support.java_program import streams_copy
from support.old_style.per_partition import POINTS

_SAYS_S = 150  # a program in Java is compiled first
_PYTHON_PATH = str(Path(__file__).parents[2])


class OldProgram:
    """Runs from the start of the block to its end at the latest."""

    def __init__(self, command: Sequence[str], points: Sequence[str] = POINTS) -> None:
        self._command = command
        self._points = points
        self.said: list[str] = []

    @classmethod
    def per_partition(
        cls, bootstrap: str, group: str, topics: tuple[str, str], consumers: int, points: Sequence[str] = POINTS
    ) -> "OldProgram":
        """Return one with a producer for each partition; its transactional ids are `<group>-old-<partition>`."""
        more = [",".join(points)] if points else []
        program = [sys.executable, "-m", "support.old_style.per_partition"]
        return cls([*program, bootstrap, group, *topics, f"{group}-old", str(consumers), *more], points)

    @classmethod
    def streams(cls, bootstrap: str, group: str, topics: tuple[str, str], threads: int, state: Path) -> "OldProgram":
        """Return one of Kafka Streams, exactly_once_v2."""
        return cls(streams_copy(bootstrap, group, *topics, str(state), str(threads), ",".join(POINTS)))

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={"PYTHONPATH": _PYTHON_PATH},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.await_said("ready")
        except AssertionError:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def await_said(self, *lines: str) -> None:
        """Wait until it has said all of these."""
        eventually(lambda: set(lines) <= set(self.said), within_s=_SAYS_S)

    def point(self, partition: int) -> str:
        """Return where it waits in a transaction of a partition."""
        return self._points[partition % len(self._points)]

    def signal(self, number: signal.Signals) -> None:
        """SIGKILL, SIGSTOP or SIGCONT."""
        self._process.send_signal(number)

    def go(self) -> None:
        """Let it go on from where it waits."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.strip())
