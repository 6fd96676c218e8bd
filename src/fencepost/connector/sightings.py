"""Which files may have been removed from a directory, where that they are missing proves nothing.

The directory may be away for a while, and so may the target of a link, or the right to look at a file.
"""

from collections.abc import Collection

from fencepost.connector.spool_directory import FoundFile


class Sightings:
    """What was seen in one and the same directory and is missing from its last listing.

    A mount that is gone, or a link that points elsewhere, is another directory, of which nothing is known yet. What
    nobody asks about between two listings is not kept.
    """

    def __init__(self) -> None:
        self._directory: str | None = None
        self._files: frozenset[FoundFile] = frozenset()
        self._missing: frozenset[FoundFile] = frozenset()
        self._asked: set[FoundFile] = set()

    @property
    def directory(self) -> str | None:
        """Return what tells the directory of the last listing from any other; None: it cannot be told."""
        return self._directory

    def note(self, directory: str | None, files: Collection[FoundFile]) -> None:
        """Take a listing of `directory`, which is something that tells it from any other; None: it cannot be told."""
        here = frozenset(files)
        is_the_same = directory is not None and directory == self._directory
        self._missing = (self._files | (self._missing & self._asked)) - here if is_the_same else frozenset()
        self._directory, self._files, self._asked = directory, here, set()

    def is_missing(self, file: FoundFile) -> bool:
        """Say whether a file was in this directory and is not listed any more."""
        self._asked.add(file)
        return file in self._missing
