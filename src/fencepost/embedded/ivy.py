"""Fetches jars by their coordinates with PySpark's Ivy, so that only Java is required."""

import importlib.util
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from fencepost.embedded.error import JarError
from fencepost.embedded.java import Java

# Ivy prints one such line for each module it has found, and for each jar it has downloaded.
_STEPS = ("\tfound ", "\t[SUCCESSFUL ]")


class Advance(Protocol):
    """Called for each module found and each jar downloaded."""

    def __call__(self) -> None: ...


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
    pattern = f"{directory}/[artifact]-[revision](-[classifier]).[ext]"
    arguments = ["-dependency", *coordinates, "-confs", "default", "-retrieve", pattern]
    with _progress(f"Apache Kafka {coordinates[2]}", expected_jars) as advance:
        run(java, arguments, "Kafka", advance)


def run(java: Java, arguments: Sequence[str], what: str, advance: Advance = lambda: None) -> None:
    """Run Ivy. Raises JarError with the end of its output if `what` could not be fetched."""
    ivy_jar = next(iter(sorted(pyspark_jars().glob("ivy-*.jar"))), None)
    if ivy_jar is None:
        raise JarError(f"no ivy-*.jar in {pyspark_jars()}: reinstall pyspark")
    command = [str(java.path), "-jar", str(ivy_jar), *arguments]
    last: deque[str] = deque(maxlen=15)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            last.append(line.rstrip())
            if line.startswith(_STEPS):
                advance()
    if ivy.returncode != 0:
        raise JarError(f"{what} could not be fetched; is the network up? Ivy said:\n" + "\n".join(last))


@contextmanager
def _progress(title: str, total: int) -> Iterator[Advance]:
    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(f"Fetching {title} ({total} jars), once per user: up to a minute", highlight=False)
        yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        row = bar.add_task(f"Fetching {title}", total=2 * total)
        yield lambda: bar.advance(row)
