"""The two sides of the race, behind one port: a worker that is started with a file and spoken to over REST."""

import itertools
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import httpx

from bench import peer
from bench.family import family, kill_all
from fencepost.embedded.process import GuardedProcess
from fencepost.testing import eventually

_START_S = 90.0
_STOP_S = 15.0
_numbers = itertools.count(1)

SHARED = {
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "exactly.once.source.support": "enabled",
}
"""The worker file of both sides, beside names and addresses; everything else is at its default."""


class SideError(Exception):
    """A side did not do what was asked; the text says what it answered."""


class Side(ABC):
    """One worker, alone in its cluster unless a group is given: group id and internal topics are of its own.

    A context manager: started on entry, gone with all below it on exit, whatever happened. It dies with this process.
    """

    name: str

    def __init__(
        self, bootstrap: str, directory: Path, settings: Mapping[str, str] | None = None, *, group: str = ""
    ) -> None:
        """`settings` go over `SHARED`; `group` is that of a worker made before."""
        own = f"{self.name}-{next(_numbers)}"
        self.group = group = group or own
        self.address = f"127.0.0.1:{free_port()}"
        self._file = directory / f"{own}.properties"
        self.log = directory / f"{own}.log"
        self.properties = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            **{f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")},
            "listeners": f"http://{self.address}",
            **SHARED,
            **self._own_settings(),
            **(settings or {}),
        }
        self._file.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        self.rest = self._client()
        self._process: GuardedProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.rest.close()

    @abstractmethod
    def _command(self, file: Path) -> list[str]:
        """What starts the worker."""

    def _own_settings(self) -> dict[str, str]:
        """What this side needs beside `SHARED`."""
        return {}

    @property
    def pid(self) -> int:
        """Of the worker's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started, and neither stopped nor killed."""
        return self._process is not None

    def start(self, *, is_waiting: bool = True) -> float:
        """Start the process and wait until its API says that it is healthy; the seconds that took."""
        self.rest.close()  # connections to a process that is gone
        self.rest = self._client()
        began = time.monotonic()
        self._process = GuardedProcess(self._command(self._file), self.log)
        if is_waiting:
            eventually(self._is_up, within_s=_START_S, every_s=0.02)
            if self._process.exit_code is not None:
                raise SideError(f"{self.name} ended with code {self._process.exit_code}:\n{self.last_lines()}")
        return time.monotonic() - began

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://{self.address}", timeout=120)

    def stop(self) -> None:
        """Gracefully at first; nothing of it is left."""
        if self._process is None:
            return
        process, self._process = self._process, None
        below = family(process.pid)
        process.terminate(_STOP_S)
        kill_all(below)

    def kill(self) -> None:
        """SIGKILL it with all below it; `start` starts it again with the same file."""
        assert self._process is not None
        process, self._process = self._process, None
        kill_all(family(process.pid))
        process.kill()

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """POST a connector. Raises SideError."""
        answer = self.rest.post("/connectors", json={"name": name, "config": dict(config)})
        if answer.status_code != httpx.codes.CREATED:
            raise SideError(f"{self.name} did not create {name}: {answer.text}")

    def delete(self, name: str) -> None:
        """DELETE a connector. Raises SideError."""
        answer = self.rest.delete(f"/connectors/{name}")
        if answer.status_code != httpx.codes.NO_CONTENT:
            raise SideError(f"{self.name} did not delete {name}: {answer.text}")

    def status(self, name: str) -> dict[str, Any]:
        """The status, empty while there is none. Raises SideError where something has failed."""
        answer = self.rest.get(f"/connectors/{name}/status")
        if answer.status_code != httpx.codes.OK:
            return {}
        status: dict[str, Any] = answer.json()
        for part in (status["connector"], *status["tasks"]):
            if part["state"] == "FAILED":
                raise SideError(f"{self.name}: {name} has failed: {part.get('trace', '')[:2000]}")
        return status

    def is_running(self, name: str, tasks: int) -> bool:
        """Whether the connector and so many tasks are RUNNING."""
        status = self.status(name)
        states = [part["state"] for part in (status["connector"], *status["tasks"])] if status else []
        return states == ["RUNNING"] * (1 + tasks)

    def last_lines(self, count: int = 25) -> str:
        """The end of what it printed or logged."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def _is_up(self) -> bool:
        assert self._process is not None
        return self._process.exit_code is not None or self.rest.get("/health").status_code == httpx.codes.OK


class Fencepost(Side):
    """`fencepost worker FILE`, in this Python environment."""

    name = "fencepost"

    def _command(self, file: Path) -> list[str]:
        return [sys.executable, "-m", "fencepost.cli.main", "worker", str(file)]


class KafkaConnect(Side):
    """Apache Kafka Connect's ConnectDistributed, with the JVM options of its own start script."""

    name = "connect"

    def _own_settings(self) -> dict[str, str]:
        return {"plugin.discovery": "service_load"}  # its quickest start

    def _command(self, file: Path) -> list[str]:
        return peer.command(peer.DISTRIBUTED, file, self.log.with_suffix(".connect.log"))

    def last_lines(self, count: int = 25) -> str:
        log = self.log.with_suffix(".connect.log")
        return "\n".join((log if log.exists() else self.log).read_text(errors="replace").splitlines()[-count:])


SIDES: dict[str, type[Side]] = {side.name: side for side in (Fencepost, KafkaConnect)}


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
