"""The oracle: a real Kafka Connect 4.3.1 worker, fetched by coordinates and run as a child process."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from bench import peer

from fencepost.testing import eventually


class KafkaConnect:
    """One distributed worker in `directory`, which is also where its relative paths start.

    While it comes up it is started again whenever it ends, as a supervisor would do: Kafka Connect's worker ends where
    it finds one of ours in its group, and a killed one of ours is there for its session time-out.
    """

    def __init__(
        self, bootstrap_servers: str, directory: Path, port: int, properties: dict[str, str], jvm: Sequence[str] = ()
    ) -> None:
        """`jvm`: more options of its JVM."""
        self._directory = directory
        self._jvm = (*peer.SMALL_JVM, *jvm)
        self._properties = {
            "bootstrap.servers": bootstrap_servers,
            "listeners": f"http://127.0.0.1:{port}",
            "plugin.discovery": "service_load",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            **properties,
        }
        self.url = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def __enter__(self) -> Self:
        worker = self._directory / "worker.properties"
        worker.write_text("".join(f"{key}={value}\n" for key, value in self._properties.items()))
        self._java = peer.command(peer.DISTRIBUTED, worker, self._directory / "connect.log", self._jvm)
        eventually(self._is_healthy, within_s=240)
        return self

    def _is_healthy(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            with (self._directory / "connect.out").open("ab") as out:
                self._process = subprocess.Popen(self._java, cwd=self._directory, stdout=out, stderr=out)
        return httpx.get(f"{self.url}/health").status_code == 200

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Gracefully, so that the last states are written."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
