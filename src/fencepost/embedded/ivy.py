"""Fetches jars by their coordinates with PySpark's Ivy, so that only Java is required."""

import importlib.util
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

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
