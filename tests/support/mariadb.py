"""A real MariaDB, Debian's server, with a binary log of rows."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.testing import eventually
from support.worker import free_port

USER, PASSWORD = "debezium", "nothing"
_NOBODYS = "mysql"  # the server refuses to be root's
_STARTED_S = 120
AS_MYSQL = "5.7.19"
"""The version that a server gives which presents itself as MySQL.

MySQL's clients ask MariaDB 10.11 for what newer versions of MySQL have. A client that knows whose log it reads gets
events of MariaDB's own; Debezium's connector for MySQL does not understand that they begin transactions, and loses rows
when it starts again.
"""


class MariaDb:
    """A server that runs; it says the version that it is asked to."""

    def __init__(self, directory: Path, version: str | None) -> None:
        self.port = free_port()
        self._version = version
        self._directory = directory
        self._server: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """Make the databases of the server itself."""
        script = shutil.which("mariadb-install-db") or "mariadb-install-db"
        command = [script, "--no-defaults", f"--datadir={self._data}", "--skip-test-db", *self._own()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        settings = {
            "datadir": self._data,
            "port": self.port,
            "bind-address": "127.0.0.1",
            "socket": self._socket,
            "pid-file": f"{self._directory}/pid",
            "server-id": 1,
            "log-bin": "binlog",
            "binlog-format": "ROW",
            "binlog-row-image": "FULL",
            "sync-binlog": 1,
        }
        if self._version is not None:
            settings["version"] = self._version
        options = [f"--{name}={value}" for name, value in settings.items()]
        with (self._directory / "log").open("ab") as log:
            self._server = subprocess.Popen(
                ["/usr/sbin/mariadbd", "--no-defaults", *options, *self._own()], stdout=log, stderr=log
            )
        eventually(lambda: self.sql("select 1") or True, within_s=_STARTED_S)

    def stop(self) -> None:
        """Kill the server, as in a crash."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()

    def sql(self, text: str) -> str:
        """Carry out statements. Returns what they print."""
        command = ["mariadb", "--no-defaults", f"--socket={self._socket}", "--user=root", "-N", "-e", text]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr + (self._directory / "log").read_text()[-2000:]
        return done.stdout

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    @property
    def _socket(self) -> Path:
        return self._directory / "s"

    @staticmethod
    def _own() -> list[str]:
        return [f"--user={_NOBODYS}"] if os.geteuid() == 0 else []


@contextmanager
def running_mariadb(directory: Path, version: str | None = None) -> Iterator[MariaDb]:
    """Run a server whose files are in a directory; USER may do everything. Skips the test where none is installed.

    Args:
        version: what it says that it is, such as AS_MYSQL; by default what it is.
    """
    if not Path("/usr/sbin/mariadbd").exists():
        pytest.skip("no MariaDB server is installed: apt-get install -y mariadb-server")
    if os.geteuid() == 0:
        shutil.chown(directory, _NOBODYS)
    server = MariaDb(directory, version)
    try:
        server.create()
        server.start()
        server.sql(f"create user {USER} identified by '{PASSWORD}'; grant all on *.* to {USER}")
        yield server
    finally:
        server.stop()
