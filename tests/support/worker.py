"""A worker under test: `fencepost worker FILE` as a child process, as a user would run it."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from fencepost.testing import eventually
from support.forked import Forked
from support.quick import spark_properties

_STRING = "org.apache.kafka.connect.storage.StringConverter"
# What root may, and nobody else: to pass where the rights of files and directories say no.
_WITHOUT_OVERRIDE = ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]
_SLOT_READY = re.compile(r"slot (\S+) is ready \(pid (\d+)\)")


# Nobody sends these: an error in native code does, of a client library for example.
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
_CRASHED = re.compile(
    r"the process of .* was ended by SIG(SEGV|ABRT|BUS|ILL|FPE).*|slot \S+ ended: .* -(6|7|8|4|11)$", re.M
)


class CrashedError(AssertionError):
    """A process ended by a signal that no test has sent."""


_reserved: list[socket.socket] = []


def free_port() -> int:
    """Return a port at which nobody listens, and which nobody else is given as long as this process lives."""
    _reserved.append(reserved_port())
    return int(_reserved[-1].getsockname()[1])


def reserved_port() -> socket.socket:
    """Return a socket that keeps its port from being given to anybody who asks for any; a server may still take it."""
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    return probe


class Worker:
    """One worker: start, REST, kill, start again with the same file and port."""

    def __init__(
        self, bootstrap: str, directory: Path, settings: Mapping[str, str] | None = None, *, group: str = "g"
    ) -> None:
        self.directory = directory
        self._reserved = reserved_port()
        self.port = int(self._reserved.getsockname()[1])
        self.advertised_port = self.port
        self.file = directory / f"worker-{self.port}.properties"
        self.log = directory / f"worker-{self.port}.log"
        self.properties = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "config.storage.topic": f"{group}-configs",
            "offset.storage.topic": f"{group}-offsets",
            "status.storage.topic": f"{group}-status",
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "3",
            "status.storage.partitions": "2",
            "key.converter": _STRING,
            "value.converter": _STRING,
            "exactly.once.source.support": "enabled",
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "2000",
            "listeners": f"http://127.0.0.1:{self.port}",
            **self._properties_of_spark(),
            **(settings or {}),
        }
        self.heeds_rights = False
        """Whether rights of files hold for it as for any user, also where the tests are root's."""
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self._log_begins = 0  # of the newest life
        self.rest = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=100)

    def __enter__(self) -> "Worker":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _properties_of_spark(self) -> Mapping[str, str]:
        return spark_properties()

    # life

    def write_file(self) -> Path:
        """Write the worker's file as `properties` are now; returns its path."""
        self.file.write_text("".join(f"{k}={v}\n" for k, v in self.properties.items()))
        return self.file

    def begin_log(self) -> Path:
        """Write the file, and note where the log of the life that begins does; returns the file's path."""
        self._log_begins = self.log.stat().st_size if self.log.exists() else 0
        return self.write_file()

    def launch(self) -> None:
        """Start the process and return at once."""
        path = self.begin_log()
        prefix = _WITHOUT_OVERRIDE if self.heeds_rights and os.geteuid() == 0 else []
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*prefix, sys.executable, "-m", "fencepost.cli.main", "worker", str(path)],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start(self, within_s: float = 240) -> None:
        """Start the process and wait until it handles requests; its Spark may still be starting."""
        self.launch()
        eventually(lambda: handles_requests(self.rest.get("/health")), within_s=within_s)

    def stop(self, within_s: float = 120) -> int | None:
        """Stop gracefully (SIGTERM); a process that does not end is killed. Returns its exit code."""
        process = self.process
        if process is None:
            return None
        self.check_alive_or_ended()
        process.terminate()
        try:
            code = process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.check_alive_or_ended()
        return code

    def kill(self) -> None:
        """SIGKILL the worker with all below it: JVM, daemons, slots."""
        process = self.process
        assert process is not None
        self.check_alive_or_ended()
        below = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
        for child in below:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        process.wait(120)
        self.process = None

    def check_alive_or_ended(self) -> None:
        """Raise CrashedError where the process, or one of its slots, was ended by a signal that no test sends."""
        code = self.process.poll() if self.process is not None else None
        if code is not None and -code in _CRASHES:
            raise CrashedError(
                f"worker {self.port} was ended by {signal.Signals(-code).name}: {self.log_text()[-2000:]}"
            )
        crashed = _CRASHED.search(self.log_text())
        if crashed is not None:
            raise CrashedError(f"worker {self.port}: {crashed[0]}")

    def log_text(self) -> str:
        """Return what the worker has printed, over all its lives."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def newest_log_text(self) -> str:
        """Return what it has printed in its newest life."""
        return self.log.read_bytes()[self._log_begins :].decode(errors="replace")

    def slots(self) -> dict[str, int]:
        """Return the processes of the slots that live, by slot id."""
        if not self.log.exists():
            return {}
        found = {slot: int(pid) for slot, pid in _SLOT_READY.findall(self.newest_log_text())}  # pids come again
        return {slot: pid for slot, pid in found.items() if psutil.pid_exists(pid) and not _is_zombie(pid)}

    def has_lost_slot(self, pid: int) -> bool:
        """Say whether the slot with this process was given up, or has left by itself, for it has stood still."""
        text = self.newest_log_text()
        ids = [slot for slot, of in _SLOT_READY.findall(text) if int(of) == pid]
        return any(said in text for slot in ids for said in (f"slot {slot} has been silent", f"slot {slot} leaves: "))

    # REST

    def create(self, name: str, config: Mapping[str, Any], **body: Any) -> httpx.Response:
        return self.rest.post("/connectors", json={"name": name, "config": dict(config), **body})

    def status(self, name: str) -> dict[str, Any]:
        response = self.rest.get(f"/connectors/{name}/status")
        return response.json() if response.status_code == 200 else {}

    def task_states(self, name: str) -> list[str]:
        return [task["state"] for task in self.status(name).get("tasks", [])]

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the values of a metric's samples that have these labels; 0 if there are none."""
        families = text_string_to_metric_families(self.rest.get("/metrics").text)
        samples = (sample for family in families for sample in family.samples if sample.name == name)
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    def sink_offsets(self, name: str) -> dict[tuple[str, int], int]:
        """Return a sink's committed offsets, by topic and partition."""
        found = self.rest.get(f"/connectors/{name}/offsets").json()["offsets"]
        at = {(one["partition"]["kafka_topic"], one["partition"]["kafka_partition"]): one["offset"] for one in found}
        return {place: offset["kafka_offset"] for place, offset in at.items()}

    def wait_for_tasks(self, name: str, *states: str, within_s: float = 240) -> list[dict[str, Any]]:
        """Wait until the tasks are in just these states, by number, and return them as the status then shows them.

        A later status may be another: a worker that is late and rejoins its group starts its tasks again.
        """

        def found() -> tuple[list[dict[str, Any]]]:
            status = self.status(name)
            tasks = status.get("tasks", [])
            if [task["state"] for task in tasks] != [*states]:
                shown = [(task["state"], task.get("trace", "")[-400:]) for task in tasks]
                raise AssertionError(f"{status.get('connector')} {shown}")
            return (tasks,)

        return eventually(found, within_s=within_s)[0]


def handles_requests(health: httpx.Response) -> bool:
    """Say whether this answer of `/health` is that of a worker that lacks Spark's slots at most."""
    return health.status_code == 200 or health.json()["message"].endswith("Spark is starting.")


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
