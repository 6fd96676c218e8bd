"""Archives of plug-ins, as their authors ship them: a directory of jars in a .zip or .tar.gz, or one jar."""

import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from fencepost.builtin.java.install.error import InstallError
from fencepost.builtin.java.install.origin import Archive, is_safe, without_version
from fencepost.embedded.checksum import sha256

_CHUNK = 1 << 16
_TIMEOUT_S = 60.0


def fetch(archive: Archive, scratch: Path) -> tuple[str, Path]:
    """Unpack an archive below a directory, and download it first if it is at a URL.

    Returns the plug-in's name, without a version, and its directory.

    Raises InstallError.
    """
    file = Path(archive.where)
    if archive.is_remote:
        file = scratch / archive.file_name
        _download(archive, file)
    _ensure_expected(archive, file)
    unpacked = scratch / "unpacked"
    unpacked.mkdir()
    try:
        _unpack(file, unpacked)
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


def _ensure_expected(archive: Archive, file: Path) -> None:
    if archive.sha256 is not None and (found := sha256(file)) != archive.sha256:
        raise InstallError(f"{archive} is not the file that was expected: its SHA-256 is {found}, not {archive.sha256}")


def _unpack(file: Path, directory: Path) -> None:
    """Unpack files and directories. Nothing is written outside the directory."""
    if file.name.lower().endswith(".jar"):
        shutil.copyfile(file, directory / file.name)
        return
    if file.name.lower().endswith(".zip"):
        with zipfile.ZipFile(file) as zipped:
            zipped.extractall(directory)  # leaves out `..` and what makes a path absolute
        return
    with tarfile.open(file, "r:gz") as tar:
        tar.extractall(directory, filter="data")


def _own_name(directory: Path) -> str | None:
    """Return the name by Confluent Hub's manifest, if there is one."""
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
