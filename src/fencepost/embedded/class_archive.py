"""Class archives (Java's AppCDS): files with which JVMs start in much less processor time.

The broker, Spark's driver and the hosts of Java plug-ins have one each, made by the same rules. They are only an
optimisation. An empty file stands for an archive that could not be made, so that not every start tries again.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.embedded.checksum import stamp
from fencepost.embedded.home import locked
from fencepost.embedded.java import Java, environment_options

_OWN_CHOICE = ("-Xshare", "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit")
_GIVEN_UP_S = 24 * 3600.0
_UNUSED_S = 30 * 24 * 3600.0


def is_chosen(own: Iterable[str] = ()) -> bool:
    """Say whether a user's options, or those of the environment, choose an archive or none: no other is used then."""
    return any(option.startswith(_OWN_CHOICE) for option in [*environment_options(), *own])


@dataclass(frozen=True)
class ClassArchive:
    """The archive for one Java and one class path. Its name has a hash of where these are, and one of their states."""

    directory: Path
    name: str
    place: str
    state: str

    @classmethod
    def of(cls, directory: Path, name: str, java: Java, jars: Sequence[Path]) -> "ClassArchive":
        """Return the archive for a class path: Java refuses one of other jars, or of jars that were replaced since.

        Raises OSError if a jar is missing.
        """
        launcher = java.path.resolve()
        modules = launcher.parents[1] / "lib" / "modules"  # missing if the launcher is a script that starts a Java
        states = map(stamp, (modules, *jars) if modules.exists() else jars)
        return cls(directory, name, _hash(launcher, *jars), _hash(java.version, *states))

    @property
    def path(self) -> Path:
        return self.directory / f"{self.name}-{self.place}-{self.state}.jsa"

    def is_settled(self) -> bool:
        """Return whether there is an archive, or none could be made less than a day ago."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return False
        return status.st_size > 0 or time.time() - status.st_mtime < _GIVEN_UP_S

    def options(self) -> list[str]:
        """Return a JVM's options that use the archive; none if it could not be made. Raises OSError if there is none.

        An archive that does not fit is not reported: the JVM loads its classes from the jars.
        """
        if not self.path.stat().st_size:
            return []
        with contextlib.suppress(OSError):  # in the layer of an image, it is another user's, and nobody deletes it
            os.utime(self.path)  # it is in use
        return ["-Xshare:auto", f"-XX:SharedArchiveFile={self.path}", "-Xlog:cds*=off"]

    def discard(self) -> None:
        """Forget an archive on which Java crashes, as it does if one is cut off. Another is made after a day."""
        with contextlib.suppress(OSError):
            self.path.unlink()
            self.path.touch()

    def make(self, train: Callable[[Path], None], *, waits: bool = True) -> None:
        """Make the archive unless another process has made it meanwhile. Only one process at a time does.

        `train(path)` runs a JVM that writes the archive to `path`. What it raises is raised after an empty file has
        taken the place of the archive. With `waits=False`, nothing is made while another process does, which may have
        been stopped.

        Archives of the same class path in another state are deleted, and those that no JVM has used for a month.
        """
        begin = f"{self.name}-{self.place}"
        with locked(self.directory / f"{begin}.lock", waits=waits) as is_mine:
            if not is_mine or self.is_settled():
                return
            for leftover in self.directory.glob(f".{begin}-*"):  # of a process that was killed
                shutil.rmtree(leftover, ignore_errors=True)
            for older in self.directory.glob(f"{self.name}-*.jsa"):
                if older.name.startswith(f"{begin}-") or time.time() - older.stat().st_mtime > _UNUSED_S:
                    older.unlink(missing_ok=True)
            with tempfile.TemporaryDirectory(prefix=f".{begin}-", dir=self.directory) as directory:
                fresh = Path(directory, "classes.jsa")
                try:
                    train(fresh)
                except Exception:
                    self.path.touch()
                    raise
                fresh.touch()
                with fresh.open("rb") as file:
                    os.fsync(file.fileno())  # Java crashes on an archive that is cut off
                fresh.rename(self.path)


def _hash(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:12]
