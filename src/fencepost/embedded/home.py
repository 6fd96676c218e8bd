"""Kafka's jars on this machine: fetched once for each user, by PySpark's Ivy, verified, and ready to run.

There is a set with all that a broker needs, and other sets of its modules. The first use of a set has these steps:

1. Lock, so that two processes do not both fetch.
2. Download into a temporary directory next to the final one.
3. Verify the jars against the committed list.
4. Create the snapshot with which every data directory of a broker starts.
5. Rename the directory.

A process that dies in between leaves nothing that looks complete.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fencepost.embedded import checksum, layout
from fencepost.embedded.error import IvyError, JarError
from fencepost.embedded.java import Java

# Ivy prints one such line for each module it has found, and for each jar it has downloaded.
_FOUND, _DOWNLOADED = "\tfound ", "\t[SUCCESSFUL ]"
_SHOWN_LINES = 15


class Advance(Protocol):
    """Called for each module found and each jar downloaded."""

    def __call__(self, *, is_found: bool) -> None: ...


def pyspark_jars() -> Path:
    """Return the directory of PySpark's jars, found without importing PySpark.

    Raises:
        JarError: PySpark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError("pyspark is not installed, and Kafka is fetched with its Ivy: pip install pyspark")
    return Path(spec.origin).parent / "jars"


def retrieve(java: Java, coordinates: tuple[str, str, str], directory: Path, *, expected_jars: int) -> None:
    """Download `coordinates` (organisation, module, revision) and all it needs into `directory`.

    Shows a progress bar on a terminal and one line elsewhere.

    Raises:
        JarError: Ivy failed; carries the end of its output.
    """
    directory.mkdir(parents=True, exist_ok=True)
    arguments = ["-dependency", *coordinates, "-confs", "default", *into(directory)]
    with progress(f"Apache Kafka {coordinates[2]}", expected_jars) as advance:
        run(java, arguments, "Kafka", advance)


def into(directory: Path) -> list[str]:
    """Return the arguments with which Ivy puts what it fetches into a directory, under the names in the repository."""
    return ["-retrieve", f"{directory}/[artifact]-[revision](-[classifier]).[ext]"]


def run(java: Java, arguments: Sequence[str], what: str, advance: Advance | None = None) -> None:
    """Run Ivy. Raises IvyError with the end of its output if `what` could not be fetched."""
    ivy_jar = next(iter(sorted(pyspark_jars().glob("ivy-*.jar"))), None)
    if ivy_jar is None:
        raise JarError(f"no ivy-*.jar in {pyspark_jars()}: reinstall pyspark")
    command = [str(java.path), "-jar", str(ivy_jar), *arguments]
    lines: list[str] = []
    try:
        started = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise JarError(f"{what} could not be fetched, because {java.path} cannot be started: {error}") from error
    with started as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            lines.append(line.rstrip())
            if advance is not None and line.startswith((_FOUND, _DOWNLOADED)):
                advance(is_found=line.startswith(_FOUND))
    if ivy.returncode != 0:
        end = "\n".join(lines[-_SHOWN_LINES:])
        raise IvyError(f"{what} could not be fetched; is the network up? Ivy said:\n{end}", lines)


@contextmanager
def progress(title: str, expected_jars: int | None = None) -> Iterator[Advance]:
    """Show how far a download is: a bar on a terminal, one line elsewhere.

    `expected_jars` is None if their number shows itself on the way.
    """
    from rich.console import Console  # which every start of a worker would wait for, and hardly one needs
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        jars = "" if expected_jars is None else f" ({expected_jars} jars), once per user"
        console.print(f"Fetching {title}{jars}: up to a minute", highlight=False)
        yield lambda *, is_found: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        row = bar.add_task(f"Fetching {title}", total=None if expected_jars is None else 2 * expected_jars)
        found = 0

        def advance(*, is_found: bool) -> None:
            nonlocal found
            found += is_found
            bar.update(row, advance=1, total=2 * (found if expected_jars is None else expected_jars))

        yield advance


KAFKA_VERSION = "4.3.1"
_COORDINATES = ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION)


@dataclass(frozen=True)
class KafkaHome:
    """A complete directory: `lib` (Kafka's jars), `logging` (SLF4J's backend for log4j) and a bootstrap snapshot."""

    directory: Path

    @property
    def jars(self) -> list[Path]:
        return sorted((self.directory / "lib").glob("*.jar"))

    @property
    def logging_jars(self) -> list[Path]:
        return sorted((self.directory / "logging").glob("*.jar"))

    @property
    def classpath(self) -> str:
        """Return the jars in a fixed order, as a class archive requires. PySpark's SLF4J precedes Kafka's older one."""
        return os.pathsep.join(str(jar) for jar in (*self.logging_jars, *self.jars))

    @property
    def bootstrap_snapshot(self) -> Path:
        """Return the file with a new cluster's feature levels, as Kafka's own storage tool wrote them."""
        return self.directory / layout.BOOTSTRAP_SNAPSHOT

    @property
    def lock(self) -> Path:
        """Return the lock file. The process that fetches or prepares something here holds it."""
        return self.directory.with_name(f"{self.directory.name}.lock")

    @property
    def manifest(self) -> checksum.Manifest:
        return checksum.Manifest(self.directory / "manifest.json")

    def is_as_verified(self) -> bool:
        return self.manifest.matches([*self.logging_jars, *self.jars]) and self.bootstrap_snapshot.exists()


def default_cache() -> Path:
    """Return `$XDG_CACHE_HOME/fencepost`, by default `~/.cache/fencepost`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fencepost"


def ensure_home(java: Java, cache: Path | None = None) -> KafkaHome:
    """Return Kafka's jars, and fetch them first if this user has none yet.

    Raises:
        JarError: The jars could not be fetched, or differ from the committed list. Nothing of a download is kept.
    """
    cache = cache or default_cache()
    home = KafkaHome(cache / f"kafka-{KAFKA_VERSION}")
    if home.is_as_verified():
        return home
    if not home.directory.exists():
        with locked(home.lock):  # 1
            if not home.directory.exists():
                _install(java, home)
    if not home.is_as_verified():
        _reverify(home)
    return home


def ensure_jars(java: Java, name: str, modules: Sequence[str], expected: Mapping[str, str]) -> list[Path]:
    """Return the jars of Kafka's `modules` with all they need, and fetch them first if this user has none yet.

    They are in the directory `name` of the cache. `expected` is the SHA-256 of each.

    Raises:
        JarError: They could not be fetched or kept, or differ from `expected`. Nothing of a download is kept.
    """
    directory = default_cache() / name
    jars, manifest = [directory / jar for jar in sorted(expected)], checksum.Manifest(directory / "manifest.json")
    if manifest.matches(jars):
        return jars
    try:
        if not directory.exists():  # it is complete when it gets this name
            with locked(directory.with_name(f"{name}.lock")):
                if not directory.exists():
                    _fetch(java, directory, modules, expected)
    except OSError as error:
        raise JarError(
            f"{name} cannot be kept in {directory.parent}: {error}; let this user write there, or name another "
            "directory by XDG_CACHE_HOME"
        ) from error
    try:
        checksum.verify(directory, expected)
    except OSError as error:
        raise JarError(f"{directory} cannot be read: {error}") from error
    except JarError as error:
        raise JarError(f"{error}. Delete {directory} to have them fetched again") from None
    manifest.write(jars)
    return jars


@contextmanager
def locked(path: Path, *, waits: bool = True) -> Iterator[bool]:
    """Hold an exclusive lock between processes. It is released if the process dies.

    Yields whether it is held: with `waits=False`, another process may have it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def _fetch(java: Java, directory: Path, modules: Sequence[str], expected: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory.parent) as temporary:
        fresh = Path(temporary, "jars")
        for module in modules:
            coordinates = ("org.apache.kafka", module, KAFKA_VERSION)
            retrieve(java, coordinates, fresh, expected_jars=len(expected))
        checksum.verify(fresh, expected)
        shutil.move(fresh, directory)


def _install(java: Java, home: KafkaHome) -> None:
    expected = checksum.committed()
    for leftover in home.directory.parent.glob(".fetch-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home.directory.parent) as temporary:
        fresh = KafkaHome(Path(temporary, "home"))
        retrieve(java, _COORDINATES, fresh.directory / "lib", expected_jars=len(expected))  # 2
        try:
            checksum.verify(fresh.directory / "lib", expected)  # 3
        except JarError as error:
            raise JarError(f"{error}. If Ivy's cache is damaged, delete ~/.ivy2/cache and try again") from None
        (fresh.directory / "logging").mkdir()
        for pattern in ("slf4j-api-2*.jar", "log4j-slf4j2-impl-*.jar"):  # Kafka's coordinates include no backend
            for jar in pyspark_jars().glob(pattern):  # PySpark's is for the same log4j version
                shutil.copy2(jar, fresh.directory / "logging")
        layout.write_bootstrap_snapshot(java, fresh.classpath, fresh.bootstrap_snapshot)  # 4
        fresh.manifest.write([*fresh.logging_jars, *fresh.jars])
        fresh.directory.rename(home.directory)  # 5


def _reverify(home: KafkaHome) -> None:
    """Verify all files again because they have changed since the last time (a copy, a restore, damage)."""
    try:
        checksum.verify(home.directory / "lib", checksum.committed())
        if not home.logging_jars or not home.bootstrap_snapshot.exists():
            raise JarError("the cached Kafka is incomplete")
    except JarError as error:
        raise JarError(f"{error}. Delete {home.directory} to have it fetched again") from None
    home.manifest.write([*home.logging_jars, *home.jars])
