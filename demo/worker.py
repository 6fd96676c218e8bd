"""The worker: `fencepost worker FILE` as a child process, as a user would run it."""

import re
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import httpx
import psutil

from fencepost.embedded.process import GuardedProcess
from fencepost.testing import eventually

GROUP = "demo"
EMPTIED = "flights"
_START_S = 90.0
_STOP_S = 20.0
_SLOT_READY = re.compile(r"slot \S+ is ready \(pid (\d+)\)")
_LAST_LINES = 25


class WorkerError(Exception):
    """The worker, or a task of it, has failed; the text ends with what it said last."""


class DemoWorker:
    """Starts, is killed, starts again with the same file and port. A context manager: ended at the end.

    It dies with this process, even one that is killed.
    """

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "worker.properties"
        self._lives = 0
        self._process: GuardedProcess | None = None
        port = _free_port()
        self._rest = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=180)
        self._file.write_text("".join(f"{k}={v}\n" for k, v in _properties(bootstrap, port).items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._rest.close()
        if self._process is not None:
            self.kill()

    @property
    def log(self) -> Path:
        """What the worker of now, or the last one, prints."""
        return self._directory / f"worker-{self._lives}.log"

    def start(self) -> float:
        """Start it and wait until it is healthy; return how long that took, in seconds. Raises WorkerError."""
        begun = time.monotonic()
        self._lives += 1
        self._process = GuardedProcess(
            [sys.executable, "-m", "fencepost.cli.main", "worker", str(self._file)], self.log
        )
        eventually(self._is_up, within_s=_START_S)
        self.check()
        return time.monotonic() - begun

    def stop(self) -> int | None:
        """Ask it to end (SIGTERM); return its exit code. Whatever is left of it is killed."""
        assert self._process is not None
        process, self._process = self._process, None
        family = _family(process.pid)
        process.terminate(_STOP_S)
        _kill_all(family)
        return process.exit_code

    def kill(self) -> None:
        """SIGKILL it with all below it: JVM, daemons, slots."""
        assert self._process is not None
        process, self._process = self._process, None
        _kill_all(_family(process.pid))
        process.kill()

    def family(self) -> list[psutil.Process]:
        """Return the worker's process and all below it; itself first."""
        assert self._process is not None
        return _family(self._process.pid)

    def slot(self) -> psutil.Process:
        """Return the process of the slot that lives; waits for one."""
        found = eventually(self._slot)
        assert found is not None
        return found

    def check(self) -> None:
        """Raise WorkerError if the worker has ended by itself, or a connector or task has failed."""
        if self._process is not None and self._process.exit_code is not None:
            raise WorkerError(f"the worker ended with code {self._process.exit_code}:\n{self._said()}")

    def check_tasks(self, connector: str) -> None:
        """Raise WorkerError if the connector or a task of it has failed."""
        status = self._status(connector)
        parts = [status.get("connector", {}), *status.get("tasks", [])]
        for trace in (part.get("trace", "") for part in parts if part.get("state") == "FAILED"):
            raise WorkerError(f"{connector} has failed: {trace}\n{self._said()}")

    def described(self, connector: str) -> str:
        """Return the status of a connector, for an error message."""
        return f"{connector}: {self._status(connector)}"

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector. Raises WorkerError."""
        answer = self._rest.post("/connectors", json={"name": name, "config": dict(config)})
        if answer.status_code != httpx.codes.CREATED:
            raise WorkerError(f"the connector {name} was not created: {answer.text}")

    def _status(self, connector: str) -> dict[str, Any]:
        try:
            answer = self._rest.get(f"/connectors/{connector}/status")
        except httpx.HTTPError:
            return {}
        return dict(answer.json()) if answer.status_code == httpx.codes.OK else {}

    def _is_up(self) -> bool:
        assert self._process is not None
        return self._process.exit_code is not None or self._rest.get("/health").status_code == httpx.codes.OK

    def _slot(self) -> psutil.Process | None:
        for pid in reversed(_SLOT_READY.findall(self.log.read_text(errors="replace"))):
            if psutil.pid_exists(int(pid)) and (found := psutil.Process(int(pid))).status() != psutil.STATUS_ZOMBIE:
                return found
        return None

    def _said(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:])


def _properties(bootstrap: str, port: int) -> dict[str, str]:
    topics = {f"{kind}.storage.topic": f"connect-{kind}s" for kind in ("config", "offset")}
    topics["status.storage.topic"] = "connect-status"
    return {
        "bootstrap.servers": bootstrap,
        "group.id": GROUP,
        **topics,
        **{key.replace("topic", "replication.factor"): "1" for key in topics},
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "exactly.once.source.support": "enabled",
        "listeners": f"http://127.0.0.1:{port}",
        # A worker that was killed is missed after this long: Kafka's shortest.
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "2000",
        # Both text files in one slot: what its death interrupts is known.
        "slots.max": "1",
        # What the files have of the flights is deleted from their topic (KIP-762), looked at as often as this.
        "delete.committed.enabled": "true",
        "delete.committed.topics": EMPTIED,
        "offset.flush.interval.ms": "1000",
    }


def _family(pid: int) -> list[psutil.Process]:
    """The process and all below it; itself first."""
    try:
        head = psutil.Process(pid)
        return [head, *head.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        pass


def _kill_all(processes: list[psutil.Process]) -> None:
    for process in processes:
        _kill(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
