"""A real Postgres, Debian's server, with logical replication; and Debezium's plug-in for it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from bench.side import free_port
from fencepost.embedded import checksum, ivy
from fencepost.embedded.home import default_cache, locked
from fencepost.embedded.java import find_java

DEBEZIUM = "3.6.1.Final"
_SHA256 = Path(__file__).with_name("debezium.sha256")
_NOBODYS = "postgres"  # the server refuses to be root's


class NoPostgresError(Exception):
    """No server is installed; the text says how to install one."""


def debezium(plugin_path: Path) -> None:
    """Put Debezium's plug-in for Postgres into a directory of `plugin.path`."""
    expected = checksum.listed(_SHA256.read_text())
    cached = default_cache() / f"debezium-connector-postgres-{DEBEZIUM}"
    with locked(cached.with_name(f"{cached.name}.lock")):
        if not cached.exists():
            coordinates = ("io.debezium", "debezium-connector-postgres", DEBEZIUM)
            ivy.retrieve(find_java(), coordinates, cached, expected_jars=len(expected))
        checksum.verify(cached, expected)
    shutil.copytree(cached, plugin_path / "debezium-connector-postgres")


class Postgres:
    """A server that runs."""

    def __init__(self, directory: Path, programs: Path) -> None:
        self.port = free_port()
        self._directory = directory
        self._programs = programs

    def start(self) -> None:
        settings = {
            "port": self.port,
            "wal_level": "logical",
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self._directory,
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._run(
            "pg_ctl", "-w", "-D", f"{self._directory}/data", "-l", f"{self._directory}/log", "-o", options, "start"
        )

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; by default as in a crash."""
        self._run("pg_ctl", "-w", "-D", f"{self._directory}/data", "-m", mode, "stop")

    def create(self) -> None:
        """Make the database; its superuser is `postgres`, whom it trusts."""
        self._run("initdb", "-D", f"{self._directory}/data", "-A", "trust", "-U", _NOBODYS, "--no-sync")

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

    def _psql(self, *arguments: str) -> list[str]:
        where = ("-h", "127.0.0.1", "-p", str(self.port), "-U", _NOBODYS)
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
def running_postgres(directory: Path) -> Iterator[Postgres]:
    """Run a server whose files are in a directory. Raises NoPostgresError."""
    programs = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
    if programs is None or not (programs / "initdb").exists():
        raise NoPostgresError("no Postgres server is installed: apt-get install -y postgresql")
    if os.geteuid() == 0:
        shutil.chown(directory, _NOBODYS)
    server = Postgres(directory, programs)
    server.create()
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _as_nobody(command: list[str]) -> list[str]:
    return ["runuser", "-u", _NOBODYS, "--", *command] if os.geteuid() == 0 else command
