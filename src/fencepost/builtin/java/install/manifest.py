"""The manifest of an installed plug-in: a file in its directory."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fencepost.embedded.checksum import sha256

FILE_NAME = "fencepost-install.json"


@dataclass(frozen=True)
class InstallManifest:
    """What was installed: its origin, what all versions of it have in common, and the SHA-256 of each file."""

    origin: str
    identity: str
    files: Mapping[str, str]

    @classmethod
    def of(cls, directory: Path, origin: str, identity: str) -> Self:
        """Return that of a directory's files."""
        return cls(origin, identity, _checksums(directory))

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
