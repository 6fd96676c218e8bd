"""Deletes or moves finished files, and never a file that is not finished.

Between the check of a file and its removal, a writer may rename another version to its path. So a file is first taken:
it is renamed to a hidden name in the same directory, and checked again there. After a crash, a taken file still counts
as a file of its directory, and a move that was nearly done is completed later.
"""

import itertools
import zlib

from fencepost.builtin.connector.file_system.spark import (
    DirectoryError,
    FoundFile,
    SparkFileSystem,
    file_of,
    hidden,
    reason,
)


class Removal:
    """Deletes and moves files of a directory. Methods may be called again after they failed, or after a crash."""

    def __init__(self, system: SparkFileSystem) -> None:
        self._system = system

    def delete(self, file: FoundFile) -> None:
        """Delete a file; does nothing if it is gone, or if another file has its name. Raises DirectoryError."""
        try:
            if self._take(file):
                self._system.delete(hidden(file))
        except Exception as error:
            raise DirectoryError(f"{file.path} cannot be deleted: {reason(error)}") from error

    def move(self, file: FoundFile, directory: str) -> None:
        """Move a file to `directory`, under another name if its own is in use; does nothing if it is gone.

        1 copy it, if it goes to another disk ▸ 2 take it ▸ 3 rename it, or the copy, to a temporary name in `directory`
        ▸ 4 delete it, if there is a copy ▸ 5 rename it to its final name. After step 4, `finish_moves` completes the
        move. An unfinished copy never counts as the file. Raises DirectoryError.
        """
        system = self._system
        halfway = f"{directory}/{hidden(file).rpartition('/')[2]}{self._tag(file.parent)}"
        copy = f"{halfway}.copy"
        try:
            system.make(directory)
            source = None if system.are_near(file.parent, directory) else self._location(file)
            if source is not None:
                system.copy(source, copy)  # 1
            if not self._take(file):  # 2
                if source is not None:
                    system.delete(copy)
                return
            if source is None:
                system.rename(hidden(file), halfway)  # 3
            else:
                system.rename(copy, halfway)
                system.delete(hidden(file))  # 4
            self._publish(halfway, file, directory)  # 5
        except Exception as error:
            raise DirectoryError(f"{file.path} cannot be moved to {directory}: {reason(error)}") from error

    def finish_moves(self, source: str, directory: str) -> None:
        """Complete step 5 of unfinished moves from `source` to `directory`. Raises DirectoryError."""
        tag, parent = self._tag(source), self._system.qualified(source)
        try:
            for name in self._system.hidden_names(directory, tag):
                file = file_of(name.removesuffix(tag), parent)
                if file is not None and self._location(file) is None:
                    self._publish(f"{directory}/{name}", file, directory)
        except Exception as error:
            raise DirectoryError(f"moves to {directory} cannot be finished: {reason(error)}") from error

    def try_put_back(self, file: FoundFile) -> bool:
        """Give a taken file its name back. False if another file has the name. Raises DirectoryError."""
        if self._system.find(hidden(file)) is None:
            return True
        if self._system.find(file.path) is not None:
            return False
        self._system.rename(hidden(file), file.path)
        return True

    def _take(self, file: FoundFile) -> bool:
        """Rename a file to its hidden name, out of writers' reach. False if it is gone, or is another file."""
        if self._system.find(file.path) == file:
            self._system.rename(file.path, hidden(file))
        elif self._system.find(hidden(file)) is None:
            return False
        if self._is_taken(file):
            return True
        if not self.try_put_back(file):  # a writer had put another one there in between
            raise DirectoryError(f"a new file of that name waits as {hidden(file)} until the name is free")
        return False

    def _is_taken(self, file: FoundFile) -> bool:
        found = self._system.find(hidden(file))
        if found is None or found.size != file.size:
            return False
        return found.modified_ms == file.modified_ms or not self._system.keeps_times(file.path)

    def _location(self, file: FoundFile) -> str | None:
        """Return the path of a file that may have been taken; None if it is gone, or is another file."""
        if self._system.find(hidden(file)) is not None:
            return hidden(file)
        return file.path if self._system.find(file.path) == file else None

    def _publish(self, halfway: str, file: FoundFile, directory: str) -> None:
        others = (f"{file.modified_ms}-{n}-{file.name}" for n in itertools.count(2))
        names = itertools.chain([file.name, f"{file.modified_ms}-{file.name}"], others)
        free = next(path for path in (f"{directory}/{name}" for name in names) if self._system.find(path) is None)
        self._system.rename(halfway, free)

    def _tag(self, source: str) -> str:
        """Return the end of halfway names: other connectors may move files from elsewhere to the same directory."""
        return f".{zlib.crc32(self._system.qualified(source).encode()):08x}.moving"
