"""Peers of streaming queries with an environment of their own: Flink SQL by PyFlink, and Quix Streams.

Each environment is made once per user, from `flink.lock` or `quix.lock` (what `uv pip freeze` says of the one version
that was asked for).
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import peer
from bench.ordered import Ordered
from bench.sink_jars import fetched
from bench.stream import Told
from fencepost.embedded import EmbeddedKafka
from fencepost.embedded.error import JarError
from fencepost.embedded.home import default_cache, locked
from fencepost.embedded.java import find_java

CONNECTOR = ("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2")


class NoEnvironmentError(Exception):
    """A peer cannot be installed; the text says why."""


def pinned(name: str, package: str) -> str:
    """Return the version of a package in a peer's list."""
    lines = _list(name).read_text(encoding="ascii").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{package}=="))


class _Query(Told):
    """A program with a query for each copy, by the Python of its own environment."""

    name: str

    def __init__(self, kafka: EmbeddedKafka, directory: Path) -> None:
        self._directory = directory
        cores = str(len(os.sched_getaffinity(0)))
        python = _python(self.name)
        command = [str(python), "-m", f"bench.{self.name}_query", kafka.bootstrap_servers, cores]
        super().__init__(Ordered(command, directory / f"{self.name}.log", self._environment(python)))

    @contextmanager
    def copy(self, source: str, target: str, settings: Mapping[str, str]) -> Iterator[None]:
        self._process.tell(settings["what"], source, target, f"{self._directory}/{target}", settings["interval.ms"])
        yield
        self._process.tell("")

    def _environment(self, python: Path) -> dict[str, str]:
        """Return what is in the environment of the program beside the usual; `python` runs it."""
        return {}


class Flink(_Query):
    """PyFlink with a cluster in its JVM."""

    name = "flink"

    def _environment(self, python: Path) -> dict[str, str]:
        [libraries] = python.parents[1].glob("lib/python*/site-packages/pyflink/lib")
        try:
            [jar] = fetched("flink-kafka", (CONNECTOR,))
        except JarError as error:
            raise NoEnvironmentError(str(error)) from error
        shutil.copy(jar, libraries)
        home = find_java().path.resolve().parents[1]
        return {"JAVA_HOME": str(home), "JVM_ARGS": " ".join(peer.JVM), "FLINK_LOG_DIR": str(self._directory)}


class Quix(_Query):
    """Quix Streams with a process for each core."""

    name = "quix"


def _python(name: str) -> Path:
    """Return the interpreter of a peer's environment, which is made if there is none. Raises NoEnvironmentError."""
    wanted = _list(name)
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]
    made = default_cache() / f"bench-{name}-{digest}"
    with locked(made.with_name(f"{made.name}.lock")):
        if not (made / "ready").exists():
            shutil.rmtree(made, ignore_errors=True)
            _uv("venv", "--python", sys.executable, str(made))
            _uv("pip", "install", "--no-deps", "--python", str(made / "bin/python"), "-r", str(wanted))
            (made / "ready").touch()
    return made / "bin/python"


def _list(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.lock")


def _uv(*words: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    command = [str(Path(sys.prefix, "bin/uv")), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoEnvironmentError(done.stderr.strip())
