"""Which files were removed from a directory, where that they are missing proves nothing: it may be away for a while."""

from collections.abc import Collection

from fencepost.connector.spool_directory import FoundFile


class Sightings:
    """Two listings in a row of the same directory: what the first one had and the second has not is removed.

    A mount that is gone, or a link that points elsewhere, is another directory, of which nothing is known yet.
    """

    def __init__(self) -> None:
        self._directory: str | None = None
        self._files: frozenset[FoundFile] = frozenset()
        self._removed: frozenset[FoundFile] = frozenset()

    def note(self, directory: str | None, files: Collection[FoundFile]) -> None:
        """Take a listing of `directory`, which is something that tells it from any other; None: it cannot be told."""
        here = frozenset(files)
        is_the_same = directory is not None and directory == self._directory
        self._removed = self._files - here if is_the_same else frozenset()
        self._directory, self._files = directory, here

    def is_removed(self, file: FoundFile) -> bool:
        """Say whether a file was removed between the last two listings."""
        return file in self._removed
