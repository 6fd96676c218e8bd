"""`fencepost mirror FILE` as a child process, with Spark or without."""

import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil

from fencepost.testing import eventually
from support import light_worker
from support.forked import Forked
from support.log_writer import LogWriter
from support.mirror.rows import values
from support.quick import spark_properties

_ADDRESS = re.compile(r"REST +(http://\S+?)/ ")
_TESTS = Path(__file__).parents[2]
_ONE = """
replication.factor offset-syncs.topic.replication.factor checkpoints.topic.replication.factor
heartbeats.topic.replication.factor config.storage.replication.factor offset.storage.replication.factor
status.storage.replication.factor offset.storage.partitions status.storage.partitions refresh.topics.interval.seconds
"""


def mirror_file(path: Path, clusters: Mapping[str, str], settings: Mapping[str, str]) -> Path:
    """Write a file for clusters of one broker each, by alias."""
    lines = {
        "clusters": ",".join(clusters),
        **{f"{alias}.bootstrap.servers": servers for alias, servers in clusters.items()},
        **{f"{alias}.consumer.fetch.max.wait.ms": "20" for alias in clusters},
        **dict.fromkeys(_ONE.split(), "1"),
        "emit.heartbeats.enabled": "false",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "slot.lease.ms": "4000",
        "slots.max": "1",
        "task.shutdown.graceful.timeout.ms": "2000",
        **settings,
    }
    path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    return path


class MirrorProcess:
    """One process. A context manager: it does not run afterwards, nor does anything below it."""

    def __init__(self, file: Path, flow: str | None = None, *, number: int = 0) -> None:
        """`flow`: run just this one, without Spark."""
        self._log = file.with_suffix(f".{number}.log")
        self._file = file
        self._flow = flow
        self._process: subprocess.Popen[bytes] | Forked | None = None

    def __enter__(self) -> "MirrorProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        tests = {"PYTHONPATH": str(_TESTS)}
        with self._log.open("wb") as out:
            if self._flow:
                arguments = ["--mirror", str(self._file), self._flow]
                self._process = Forked(light_worker.main, arguments, self._log, tests)
                return
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fencepost.cli.main", "mirror", str(self._file)],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **tests},
            )

    def end(self, number: signal.Signals = signal.SIGINT, within_s: float = 60) -> int:
        """Tell it to end; returns its exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(within_s)

    def await_end(self, within_s: float = 60) -> int:
        assert self._process is not None
        return self._process.wait(within_s)

    def below(self) -> list[psutil.Process]:
        """Return the processes that it has started, with theirs."""
        assert self._process is not None
        return psutil.Process(self._process.pid).children(recursive=True) if self._process.poll() is None else []

    def kill(self) -> None:
        """SIGKILL it with all below it."""
        if self._process is not None:
            for process in [*self.below(), self._process]:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
            self._process.wait(60)

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def rest(self) -> httpx.Client:
        """Return a client of the worker's REST API, once that is up."""
        found = eventually(lambda: _ADDRESS.search(self.said()), within_s=60)
        assert found is not None
        return httpx.Client(base_url=found[1], timeout=60)

    def status(self, connector: str) -> dict[str, Any]:
        """Return a connector's status; empty while there is none."""
        with self.rest() as client:
            answer = client.get(f"/connectors/{connector}/status")
        return answer.json() if answer.status_code == 200 else {}


def with_quick_spark(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings with which Spark's JVM is quick to start."""
    return {**spark_properties(), "spark.master": "local[2]", **settings}


class DedicatedModeStage:
    """Two clusters under aliases that no other test has, and the file that mirrors one to the other."""

    def __init__(self, directory: Path, source: LogWriter, target: LogWriter, prefix: str) -> None:
        self.prefix = prefix
        self.path = directory / "mm2.properties"
        self.source, self.target = source, target
        mark = uuid.uuid4().hex[:6]
        self.a, self.b = f"a{mark}", f"b{mark}"
        self.flow = f"{self.a}->{self.b}"

    def write(self, settings: Mapping[str, str] | None = None) -> Path:
        """Write the file; `>` before a key is replaced by the flow."""
        given = {"topics": f"{self.prefix}.*", f"{self.flow}.enabled": "true", **(settings or {})}
        named = {key.replace(">", f"{self.flow}.", 1) if key[0] == ">" else key: value for key, value in given.items()}
        return mirror_file(self.path, {self.a: self.source.bootstrap, self.b: self.target.bootstrap}, named)

    def process(self, number: int = 0) -> MirrorProcess:
        return MirrorProcess(self.path, self.flow, number=number)

    def values(self, topic: str) -> list[bytes | None]:
        return values(self.target, f"{self.a}.{topic}")

    def await_values(self, topic: str, wanted: list[bytes]) -> None:
        eventually(lambda: self.values(topic) == wanted, within_s=120, every_s=0.2)
