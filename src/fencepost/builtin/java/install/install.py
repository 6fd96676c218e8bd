"""Installs a plug-in: an artifact of a Maven repository, or an archive as its author ships it.

An archive is a directory of jars in a .zip or .tar.gz, or one jar.
"""

import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from fencepost.builtin.java.index import offered
from fencepost.builtin.java.install import maven
from fencepost.builtin.java.install.directory import InstalledPlugin, PluginDirectory
from fencepost.builtin.java.install.known import InstallError
from fencepost.builtin.java.install.origin import (
    Archive,
    Coordinates,
    HubPlugin,
    Origin,
    is_safe,
    with_version,
    without_version,
)
from fencepost.embedded.checksum import sha256

_CHUNK = 1 << 16
_TIMEOUT_S = 60.0


class Installation(NamedTuple):
    """What was installed, and what it has replaced."""

    directory: Path
    replaced: InstalledPlugin | None


def install(
    origin: Origin, directory: PluginDirectory, name: str | None = None, repository: str | None = None
) -> Installation:
    """Fetch a plug-in and put it into a directory, in place of another version of it.

    Args:
        name: The name of its own directory. By default the artifact's, or that of the archive, without a version.
        repository: The URL of a Maven repository. By default Maven Central.

    Raises InstallError; then the directory is as it was.
    """
    origin = with_version(origin, repository)
    with directory.staged() as scratch:
        if isinstance(origin, Coordinates):
            fresh = scratch / origin.artifact
            maven.fetch(origin, fresh, repository)
            name, identity = name or origin.artifact, origin.identity
        else:
            own_name, fresh = _fetched(origin, scratch)
            name = identity = name or own_name
        if not offered(fresh):
            count = sum(1 for _ in fresh.rglob("*.jar"))
            raise InstallError(
                f"{origin} has no connector, transform, predicate or converter of Kafka Connect, in {count} "
                f"jar{'' if count == 1 else 's'}: it is a library, or something else"
            )
        return Installation(directory.path / name, directory.put(fresh, name, str(origin), identity))


def _fetched(origin: HubPlugin | Archive, scratch: Path) -> tuple[str, Path]:
    if isinstance(origin, Archive):
        return fetch(origin, scratch)
    try:
        return fetch(origin.archive, scratch)
    except InstallError as error:
        page = f"https://www.confluent.io/hub/{origin.owner}/{origin.name}"
        raise InstallError(f"{error}. All versions are on {page}") from error


def fetch(archive: Archive, scratch: Path) -> tuple[str, Path]:
    """Unpack an archive below a directory, and download it first if it is at a URL.

    Returns the plug-in's name, without a version, and its directory.

    Raises InstallError.
    """
    file = Path(archive.where)
    if archive.is_remote:
        file = scratch / archive.file_name
        _download(archive, file)
    if archive.sha256 is not None and (found := sha256(file)) != archive.sha256:
        raise InstallError(f"{archive} is not the file that was expected: its SHA-256 is {found}, not {archive.sha256}")
    unpacked = scratch / "unpacked"
    unpacked.mkdir()
    try:  # nothing is written outside the directory
        if file.name.lower().endswith(".jar"):
            shutil.copyfile(file, unpacked / file.name)
        elif file.name.lower().endswith(".zip"):
            with zipfile.ZipFile(file) as zipped:
                zipped.extractall(unpacked)  # leaves out `..` and what makes a path absolute
        else:
            with tarfile.open(file, "r:gz") as tar:
                tar.extractall(unpacked, filter="data")
    except (OSError, tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise InstallError(f"{archive} cannot be unpacked: {error}") from error
    entries = list(unpacked.iterdir())
    if len(entries) == 1 and entries[0].is_dir():
        return _own_name(entries[0]) or without_version(entries[0].name), entries[0]
    return _own_name(unpacked) or archive.stem, unpacked


def _ensure_safe(archive: Archive, urls: Sequence[str]) -> None:
    """Refuse redirections to where anybody can replace the file, unless it is compared with a SHA-256."""
    if archive.sha256 is None and not all(map(is_safe, urls)):
        raise InstallError(f"{archive} is redirected to plain http, where anybody can replace it: give its --sha256")


def _own_name(directory: Path) -> str | None:
    try:
        found = json.loads((directory / "manifest.json").read_text())
        owner = found["owner"]["username"]
        return Path(f"{owner}-{found['name']}").name
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _download(archive: Archive, file: Path) -> None:
    import httpx

    try:
        with httpx.stream("GET", archive.where, follow_redirects=True, timeout=_TIMEOUT_S) as answer:
            answer.raise_for_status()
            _ensure_safe(archive, [str(each.url) for each in (*answer.history, answer)])
            size = int(answer.headers.get("Content-Length", 0)) or None
            with file.open("wb") as out, _progress(f"Fetching {archive.file_name}", size) as advance:
                for chunk in answer.iter_bytes(_CHUNK):
                    out.write(chunk)
                    advance(len(chunk))
    except httpx.HTTPStatusError as error:
        raise InstallError(
            f"{archive} could not be fetched: the server answered {error.response.status_code}"
        ) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise InstallError(
            f"{archive} could not be fetched: {type(error).__name__}. Where there is no network, download the file "
            "elsewhere, and give its path"
        ) from None


@contextmanager
def _progress(title: str, size_bytes: int | None) -> Iterator[Callable[[int], None]]:
    """Show how far a download is: a bar on a terminal, one line elsewhere. Yields what is called for each chunk."""
    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(title, highlight=False)
        yield lambda count: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        row = bar.add_task(title, total=size_bytes)
        yield lambda count: bar.advance(row, count)
