"""Class archives (Java's AppCDS): files with which JVMs start in much less processor time.

They are only an optimisation. An empty file stands for an archive that could not be made, so that not every start tries
again.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fencepost.embedded.home import locked

OWN_CHOICE = ("-Xshare", "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit")
"""Options with which a user has chosen an archive, or none: no other is used or made."""

_GIVEN_UP_S = 24 * 3600.0


def is_settled(archive: Path) -> bool:
    """Return whether there is an archive, or none could be made less than a day ago."""
    try:
        status = archive.stat()
    except FileNotFoundError:
        return False
    return status.st_size > 0 or time.time() - status.st_mtime < _GIVEN_UP_S


def options_with(archive: Path) -> list[str]:
    """Return a JVM's options that use the archive; none if it could not be made. Raises OSError if there is none."""
    return ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"] if archive.stat().st_size else []


def make(archive: Path, lock: Path, unfinished: str, train: Callable[[Path], None], *, waits: bool = True) -> None:
    """Make an archive unless another process has made it meanwhile. Only one process at a time does.

    With `waits=False`, nothing is made while another one does, which may have been stopped.

    Java crashes on an archive that is cut off, so it is on disk before it is in its place. `train(path)` runs a JVM
    that writes the archive to `path`; raises what it raises. `unfinished` is how the names of directories beside the
    archive begin in which it is written: those that a killed process has left are deleted.
    """
    with locked(lock, waits=waits) as is_mine:
        if not is_mine or is_settled(archive):
            return
        for leftover in archive.parent.glob(f"{unfinished}*"):
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=unfinished, dir=archive.parent) as directory:
            fresh = Path(directory, "classes.jsa")
            train(fresh)
            fresh.touch()
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
            fresh.rename(archive)
