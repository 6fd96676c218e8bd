"""A directory of `plugin.path` in which plug-ins are installed and removed.

A plug-in appears in these steps, so that neither a worker that starts meanwhile nor a process that dies leaves a part:

1. Its files are put into a directory whose name begins with a dot: no plug-in.
2. The manifest is written, with the checksum of each file.
3. An older version is renamed to `.replaced-NAME`.
4. The new one is renamed to NAME. If the process died between 3 and 4, the next use renames the older one back.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from fencepost.builtin.java.install.known import InstallError
from fencepost.embedded.checksum import sha256
from fencepost.embedded.home import locked

_STAGED, _REPLACED, _LOCK = ".install-", ".replaced-", ".fencepost-install.lock"
_NAME = re.compile(r"\w[\w.-]*")
FILE_NAME = "fencepost-install.json"


@dataclass(frozen=True)
class InstallManifest:
    """What was installed: its origin, what all versions of it have in common, and the SHA-256 of each file."""

    origin: str
    identity: str
    files: Mapping[str, str]

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Return the manifest in a directory; None if there is none that can be read."""
        try:
            found = json.loads((directory / FILE_NAME).read_text())
            return cls(str(found["origin"]), str(found["identity"]), dict(found["files"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, directory: Path) -> None:
        (directory / FILE_NAME).write_text(json.dumps(vars(self), indent=1) + "\n")

    def changed(self, directory: Path) -> list[str]:
        """Return the names of files that were added, removed or changed since."""
        return sorted({name for name, _ in set(self.files.items()) ^ set(_checksums(directory).items())})


def _checksums(directory: Path) -> dict[str, str]:
    files = (path for path in sorted(directory.rglob("*")) if path.is_file() and path.name != FILE_NAME)
    return {str(path.relative_to(directory)): sha256(path) for path in files}


class InstalledPlugin(NamedTuple):
    """A plug-in that was installed by Fencepost."""

    directory: Path
    manifest: InstallManifest


class PluginDirectory:
    """One directory. Processes take turns; everything raises InstallError if it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def installed(self) -> list[InstalledPlugin]:
        """Return the plug-ins that were installed here, and not those that were put here in another way."""
        try:
            entries = sorted(self.path.iterdir())
        except OSError:
            return []
        manifests = ((entry, InstallManifest.read(entry)) for entry in entries if not entry.name.startswith("."))
        return [InstalledPlugin(entry, manifest) for entry, manifest in manifests if manifest is not None]

    @contextmanager
    def staged(self) -> Iterator[Path]:
        """Yield a new directory for `put`. It is deleted at the end, with what is still in it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with locked(self.path / _LOCK):
                self._clean()
                with tempfile.TemporaryDirectory(prefix=_STAGED, dir=self.path, ignore_cleanup_errors=True) as scratch:
                    yield Path(scratch)
        except OSError as error:
            raise InstallError(
                f"{error.filename or self.path} cannot be written: {error.strerror}; give this user the right to, or "
                "another directory, --plugin-path"
            ) from error

    def put(self, fresh: Path, name: str, origin: str, identity: str) -> InstalledPlugin | None:
        """Make a directory within the one that was staged the plug-in `name`. Returns what it replaces.

        Raises InstallError also if something else has the name.
        """
        if not _NAME.fullmatch(name):
            raise InstallError(f"{name!r} cannot be the name of a directory with a plug-in: give another one, --name")
        target, old = self.path / name, self.path / f"{_REPLACED}{name}"
        before = self._replaceable(target, identity)
        InstallManifest(origin, identity, _checksums(fresh)).write(fresh)  # 2
        if before is not None:
            target.rename(old)  # 3
        fresh.rename(target)  # 4
        shutil.rmtree(old, ignore_errors=True)
        return before

    def remove(self, name: str) -> InstalledPlugin:
        """Delete a plug-in, by the name of its directory or by its origin, with or without a version."""
        found = [
            each
            for each in self.installed()
            if name in (each.directory.name, each.manifest.origin, each.manifest.identity)
        ]
        if len(found) != 1:
            raise InstallError(self._not_one(name, found))
        with self.staged() as scratch:
            found[0].directory.rename(scratch / "removed")
        return found[0]

    def _replaceable(self, target: Path, identity: str) -> InstalledPlugin | None:
        if not target.exists():
            return None
        manifest = InstallManifest.read(target)
        if manifest is not None and manifest.identity == identity:
            return InstalledPlugin(target, manifest)
        what = "was not installed by Fencepost" if manifest is None else f"is {manifest.origin}"
        raise InstallError(f"{target} exists, and {what}: remove it first, or give another name, --name")

    def _not_one(self, name: str, found: list[InstalledPlugin]) -> str:
        if found:
            names = " and ".join(each.directory.name for each in found)
            return f"{name} is installed in {names} of {self.path}: give one of these"
        if (self.path / name).exists():
            return f"{self.path / name} was not installed by `fencepost plugin install`: delete it yourself"
        names = ", ".join(each.directory.name for each in self.installed()) or "nothing"
        return f"{name} is not installed in {self.path}; what is: {names}"

    def _clean(self) -> None:
        """Undo what a process that died has left."""
        for staged in self.path.glob(f"{_STAGED}*"):
            shutil.rmtree(staged, ignore_errors=True)
        for old in self.path.glob(f"{_REPLACED}*"):
            target = self.path / old.name.removeprefix(_REPLACED)
            if target.exists():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.rename(target)
