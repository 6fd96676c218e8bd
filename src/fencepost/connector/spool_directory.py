"""Directories as Spark sees them: on this machine or any file system that Hadoop knows. Driver side."""

import fnmatch
import os
from dataclasses import dataclass
from typing import Any


class DirectoryError(OSError):
    """A file or directory could not be listed, moved or deleted; nothing is lost."""


@dataclass(frozen=True)
class FoundFile:
    """A file's identity: another size or time of modification is another file."""

    path: str
    size: int
    modified_ms: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class SparkFileSystem:
    """File access through the JVM of a Spark session."""

    def __init__(self, session: Any) -> None:
        self._jvm = session._jvm
        self._conf = session._jsc.hadoopConfiguration()

    def identity(self, directory: str) -> str | None:
        """Return what tells a directory from another one under the same path; None where there is none.

        On this machine a mount can go, or a link be turned. Elsewhere the address stands for the directory.
        """
        path = self._path(directory)
        try:
            system = path.getFileSystem(self._conf)
            if str(system.getUri().getScheme()) != "file":
                return str(system.makeQualified(path).toString())
            found = os.stat(str(path.toUri().getPath()))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise DirectoryError(f"{directory} cannot be looked at: {_reason(error)}") from error
        return f"{found.st_dev}:{found.st_ino}"

    def files(self, directory: str, pattern: str) -> list[FoundFile] | None:
        """Return the files directly in `directory`, hidden ones left out; None where there is no such directory."""
        path = self._path(directory)
        system = path.getFileSystem(self._conf)
        try:
            if not system.exists(path):
                return None
            listed = list(system.listStatus(path))
        except Exception as error:
            raise DirectoryError(f"{directory} cannot be listed: {_reason(error)}") from error
        found = []
        for status in listed:
            name = str(status.getPath().getName())
            if not name.startswith((".", "_")) and fnmatch.fnmatchcase(name, pattern) and status.isFile():
                found.append(_found(status))
        return found

    def find(self, file: str) -> FoundFile | None:
        """Return what stands at a path, None for nothing. Raises DirectoryError where that cannot be known."""
        path = self._path(file)
        try:
            system = path.getFileSystem(self._conf)
            return _found(system.getFileStatus(path)) if system.exists(path) else None
        except Exception as error:
            raise DirectoryError(f"{file} cannot be looked at: {_reason(error)}") from error

    def delete(self, file: str) -> None:
        """Delete a file; nothing where it is gone. Raises DirectoryError."""
        path = self._path(file)
        try:
            if not path.getFileSystem(self._conf).delete(path, False) and self.find(file) is not None:
                raise DirectoryError(f"{file} cannot be deleted")
        except DirectoryError:
            raise
        except Exception as error:
            raise DirectoryError(f"{file} cannot be deleted: {_reason(error)}") from error

    def move(self, file: FoundFile, directory: str) -> None:
        """Move a file into `directory`, under another name where its own is taken. Idempotent. Raises DirectoryError.

        It goes by way of a hidden name in the target: a move between two disks is a copy, and half a copy is never
        taken for the file.
        """
        system = self._path(directory).getFileSystem(self._conf)
        halfway = self._path(f"{directory}/.{file.name}.{file.modified_ms}.moving")
        try:
            system.mkdirs(self._path(directory))
            if self.find(file.path) == file:
                system.delete(halfway, False)
                self._rename(system, self._path(file.path), halfway)
            if system.exists(halfway):
                self._rename(system, halfway, self._path(self._free_name(directory, file)))
        except Exception as error:
            if self.find(file.path) is not None:
                _quietly(lambda: system.delete(halfway, False))
            raise DirectoryError(f"{file.path} cannot be moved to {directory}: {_reason(error)}") from error

    def _rename(self, system: Any, source: Any, target: Any) -> None:
        if not system.rename(source, target):
            raise DirectoryError(f"renaming {source.toString()} was refused (rights, or a full disk)")

    def _free_name(self, directory: str, file: FoundFile) -> str:
        plain = f"{directory}/{file.name}"
        return plain if self.find(plain) is None else f"{directory}/{file.modified_ms}-{file.name}"

    def _path(self, text: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(text)


def _found(status: Any) -> FoundFile:
    return FoundFile(str(status.getPath().toString()), int(status.getLen()), int(status.getModificationTime()))


def _reason(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() or java.toString()) if java is not None else str(error)
    return text.strip().partition("\n")[0]


def _quietly(act: Any) -> None:
    try:
        act()
    except Exception:
        pass
