"""Sets of Kafka's jars other than the broker's: fetched once for each user, and verified."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from fencepost.embedded import checksum, ivy
from fencepost.embedded.error import JarError
from fencepost.embedded.home import KAFKA_VERSION, default_cache, locked
from fencepost.embedded.java import Java


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
    _ensure_fetched(java, directory, modules, expected)
    _verify(directory, expected)
    manifest.write(jars)
    return jars


def _ensure_fetched(java: Java, directory: Path, modules: Sequence[str], expected: Mapping[str, str]) -> None:
    try:
        if directory.exists():  # it was complete when it got this name
            return
        with locked(directory.with_name(f"{directory.name}.lock")):
            if not directory.exists():
                _fetch(java, directory, modules, expected)
    except OSError as error:
        raise JarError(
            f"{directory.name} cannot be kept in {directory.parent}: {error}; let this user write there, or name "
            "another directory by XDG_CACHE_HOME"
        ) from error


def _fetch(java: Java, directory: Path, modules: Sequence[str], expected: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory.parent) as temporary:
        fresh = Path(temporary, "jars")
        for module in modules:
            coordinates = ("org.apache.kafka", module, KAFKA_VERSION)
            ivy.retrieve(java, coordinates, fresh, expected_jars=len(expected))
        checksum.verify(fresh, expected)
        shutil.move(fresh, directory)


def _verify(directory: Path, expected: Mapping[str, str]) -> None:
    try:
        checksum.verify(directory, expected)
    except OSError as error:
        raise JarError(f"{directory} cannot be read: {error}") from error
    except JarError as error:
        raise JarError(f"{error}. Delete {directory} to have them fetched again") from None
