"""The program `query_program` in a process of its own, to be killed, and the processes below it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import psutil

from fencepost.testing import eventually
from support.chaos import query_program
from support.chaos.processes import below, command, is_alive
from support.chaos.query_program import Given
from support.quick import spark_properties

_TESTS = Path(__file__).parents[2]
_WARM = Path(__file__).with_name("warm")
_START_S = 600.0
_LOCAL = "local[2,4]"  # a task may fail three times


def python_path() -> str:
    """Return where the program, and Python on executors, find what is in tests."""
    return os.pathsep.join(filter(None, [str(_WARM), str(_TESTS), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]))


class QueryDriver:
    """One start of the program. Several may have the same checkpoints."""

    def __init__(self, given: Given, log: Path, conf: Mapping[str, str]) -> None:
        """Start it, with a session of this `conf`, and return at once. Its queries wait for `go`."""
        own = {
            "spark.master": _LOCAL,
            "spark.ui.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",  # for ten rows, code takes longer to compile than to run
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "700m",
            "spark.sql.streaming.minBatchesToRetain": "1000000",
            "spark.sql.streaming.metricsEnabled": "false",
            "spark.local.dir": str(log.parent),
        }
        self.log = log
        arguments = asdict(given) | {"conf": spark_properties() | own | dict(conf) | given.conf}
        paths = python_path()
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, query_program.__file__, json.dumps(arguments)],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={
                    **os.environ,
                    "PYSPARK_PYTHON": sys.executable,
                    "PYTHONPATH": paths,
                },
            )
        self._known: dict[int, psutil.Process] = {}

    def go(self) -> None:
        """Let its queries start."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def await_started(self) -> None:
        """Wait until its queries run."""
        eventually(lambda: self.is_running and "started" in self.text(), within_s=_START_S)

    @property
    def is_running(self) -> bool:
        """Whether it runs. Raises AssertionError where it has ended by itself."""
        assert self._process.poll() is None, self.text()[-6000:]
        return True

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def failures(self) -> list[str]:
        """Return the first lines of the errors that queries have ended with."""
        return [line for line in self.text().splitlines() if line.startswith("ended:")]

    def processes(self) -> list[psutil.Process]:
        """Return all of its processes that live: also those whose parents were killed."""
        if self._process.poll() is None:
            self._known[self._process.pid] = psutil.Process(self._process.pid)
        for each in list(self._known.values()):
            with suppress(psutil.NoSuchProcess):
                self._known.update({child.pid: child for child in below(each.pid)})
        return [each for each in self._known.values() if is_alive(each)]

    def jvm(self) -> psutil.Process:
        """Return the JVM of the driver."""
        return next(each for each in self.processes() if "SparkSubmit" in command(each))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all processes."""
        for each in self.processes():
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    def kill(self) -> None:
        """SIGKILL everything."""
        while found := self.processes():
            for each in found:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
            if self._process.poll() is None:
                self._process.wait()
            psutil.wait_procs(found, 10)
