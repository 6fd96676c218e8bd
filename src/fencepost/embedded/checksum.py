"""The committed SHA-256 list and the check of a directory of jars against it."""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from fencepost.embedded.error import JarError

log = logging.getLogger(__name__)


def committed() -> dict[str, str]:
    """Return the SHA-256 of each file name in `jars.sha256`."""
    return listed(files("fencepost.embedded").joinpath("jars.sha256").read_text(encoding="ascii"))


def listed(text: str) -> dict[str, str]:
    """Return the SHA-256 of each file name in the output of `sha256sum`."""
    lines = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return {name: digest for digest, name in lines}


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(directory: Path, expected: Mapping[str, str]) -> None:
    """Check that `directory` holds exactly the expected jars.

    Raises:
        JarError: a jar is missing, is not in the list, or has other contents; names each.
    """
    present = {path.name: path for path in directory.glob("*.jar")}
    problems = [f"{name} is missing" for name in sorted(expected.keys() - present.keys())]
    problems += [f"{name} is not in the list" for name in sorted(present.keys() - expected.keys())]
    for name in sorted(expected.keys() & present.keys()):
        found = sha256(present[name])
        if found != expected[name]:
            problems.append(f"{name} has SHA-256 {found}, expected {expected[name]}")
    if problems:
        raise JarError("refusing to run Kafka, because its jars do not match the checksums: " + "; ".join(problems))


class Manifest:
    """Sizes and times of files that were verified once, so that later starts need not hash 44 MB."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, jars: Iterable[Path]) -> None:
        """Keep the sizes and times. Where that is not possible, as on a read-only disk, each process verifies again."""
        try:
            self._path.write_text(json.dumps({jar.name: stamp(jar) for jar in jars}, indent=1))
        except OSError as error:
            log.debug("the jars of %s are verified again by the next process: %s", self._path.parent, error)

    def matches(self, jars: Iterable[Path]) -> bool:
        """Say whether exactly these files are as they were when the manifest was written."""
        try:
            recorded = json.loads(self._path.read_text())
            return bool({jar.name: stamp(jar) for jar in jars} == recorded)
        except (OSError, ValueError):
            return False


def stamp(path: Path) -> list[int]:
    """Return what differs when a file was replaced: its size, and its time in whole seconds, as layers of images have.

    Raises OSError if there is no such file.
    """
    status = path.stat()
    return [status.st_size, int(status.st_mtime)]
