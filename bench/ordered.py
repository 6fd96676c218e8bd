"""A process that does what it is told, a line at a time."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from bench.family import family, kill_all


class Ordered:
    """Says `ready` once it has started; answers each line with one. A context manager: gone with all below it."""

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> None:
        self._command = command
        self._log = log
        self._environment = environment or {}

    def __enter__(self) -> Self:
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=Path(__file__).parents[1],
                start_new_session=True,
                env={**os.environ, **self._environment},
            )
        if self._line() != "ready":
            raise OSError(self._log.read_text(errors="replace")[-2000:])
        return self

    def __exit__(self, *_: object) -> None:
        kill_all(family(self._process.pid))
        self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, *words: str) -> str:
        """Say it, and return the answer. Raises OSError where it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        if not (answer := self._line()):
            raise OSError(self._log.read_text(errors="replace")[-2000:])
        return answer

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def spark(module: str, arguments: Sequence[str], log: Path) -> Ordered:
    """A module of the bench, as a process that starts Spark."""
    return Ordered([sys.executable, "-m", module, *arguments], log, {"PYSPARK_PYTHON": sys.executable})
