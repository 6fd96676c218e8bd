"""A real schema registry: Apicurio, with Confluent's API. One for all processes of a test run.

The first process that needs it starts it, and all that use it hold a lock on a file, which the kernel gives up for a
process that ends, however it ends. `registry_guard` runs the registry and ends it once nobody holds the lock.
"""

import fcntl
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from fencepost.embedded import checksum
from fencepost.embedded.error import JarError
from fencepost.embedded.home import default_cache, locked, run
from fencepost.embedded.java import find_java
from fencepost.embedded.process import GuardedProcess
from fencepost.testing import eventually
from support import registry_guard
from support.worker import free_port

VERSION = "2.6.13.Final"
_SHA256 = Path(__file__).with_name("schema_registry.sha256")
_MODULE = f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="fencepost" module="schema-registry"/>
  <dependencies>
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{VERSION}" conf="default" transitive="false">
      <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
_START_S = 300  # twenty seconds where nothing else runs


def shared_registry() -> str:
    """Return the URL of the run's registry. It runs until the last process that called this has ended."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"process-{os.getpid()}")
    directory = Path(tempfile.gettempdir()) / f"fencepost-schema-registry-{run}"
    directory.mkdir(exist_ok=True)
    _hold(directory)
    with locked(directory / "start.lock"):
        url = directory / "url"
        if not url.exists():
            _start(directory)
        return url.read_text()


_held: list[int] = []  # descriptors that stay open as long as this process lives


def _hold(directory: Path) -> None:
    if not _held:
        _held.append(os.open(directory / "users", os.O_CREAT | os.O_RDWR, 0o600))
        fcntl.flock(_held[0], fcntl.LOCK_SH)


def _start(directory: Path) -> None:
    home, port = registry_home(), free_port()
    with (directory / "registry.log").open("wb") as log:
        subprocess.Popen(
            [sys.executable, registry_guard.__file__, str(directory), *command(home, port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    await_registry(url)
    (directory / "url").write_text(url)


class OwnRegistry:
    """A registry for one test, which can be killed and started again: what it knows is in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self._process: GuardedProcess | None = None

    def __enter__(self) -> "OwnRegistry":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        database = f"-DREGISTRY_DATASOURCE_URL=jdbc:h2:file:{self._directory / 'registry'};WRITE_DELAY=0"
        self._process = GuardedProcess(
            command(registry_home(), self._port, database), output=self._directory / "registry.log"
        )
        await_registry(self.url)

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process = None


@dataclass(frozen=True)
class Outage:
    """A registry at `url` that goes away and comes back."""

    url: str
    begin: Callable[[], None]
    end: Callable[[], None]


def command(home: Path, port: int, *options: str) -> list[str]:
    """Return the command line of a registry."""
    runner = next(home.glob("*-runner.jar"))
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
    where = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
    return [str(find_java().path), *quick, *where, *options, "-jar", str(runner)]


def await_registry(url: str) -> None:
    """Wait until a registry answers."""

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/subjects", timeout=30).status_code == 200
        except httpx.TransportError:
            return False

    eventually(answers, within_s=_START_S)


def registry_home() -> Path:
    """Return the directory of its jars: fetched if this user has none yet, and verified then."""
    home = default_cache() / f"apicurio-registry-{VERSION}"
    with locked(home.with_name(f"{home.name}.lock")):
        if not home.exists():
            _install(home)
    return home


def _install(home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home.parent) as temporary:
        module = Path(temporary, "ivy.xml")
        module.write_text(_MODULE)
        pattern = f"{temporary}/[artifact]-[revision].[ext]"
        run(find_java(), ["-ivy", str(module), "-retrieve", pattern, "-types", "tar.gz"], "Apicurio Registry")
        (archive,) = Path(temporary).glob("*.tar.gz")
        expected, found = _SHA256.read_text(encoding="ascii").split()[0], checksum.sha256(archive)
        if found != expected:
            raise JarError(f"refusing {archive.name}: its SHA-256 is {found}, expected {expected}")
        fresh = Path(temporary, "home")
        with tarfile.open(archive) as packed:
            packed.extractall(fresh, filter="data")
        fresh.rename(home)
