"""Which files may have been removed from a directory. That a file is missing does not prove it.

The directory, the target of a link, or the right to access a file may be missing only for a while.
"""

from collections.abc import Collection

from fencepost.builtin.connector.file_system.spark import FoundFile


class Sightings:
    """The files that were seen in the same directory and are missing from its last listing.

    A missing mount, or a link that points elsewhere, counts as another directory, of which nothing is known yet. Files
    that are not asked about between two listings are dropped.
    """

    def __init__(self) -> None:
        self._directory: str | None = None
        self._files: frozenset[FoundFile] = frozenset()
        self._missing: frozenset[FoundFile] = frozenset()
        self._asked: set[FoundFile] = set()

    @property
    def directory(self) -> str | None:
        """Return the identity of the directory of the last listing; None if unknown."""
        return self._directory

    def record(self, directory: str | None, files: Collection[FoundFile]) -> None:
        """Record a listing of the directory with this identity; None if the identity is unknown."""
        here = frozenset(files)
        is_the_same = directory is not None and directory == self._directory
        self._missing = (self._files | (self._missing & self._asked)) - here if is_the_same else frozenset()
        self._directory, self._files, self._asked = directory, here, set()

    def is_missing(self, file: FoundFile) -> bool:
        """Say whether a file was in this directory and is no longer listed."""
        self._asked.add(file)
        return file in self._missing
