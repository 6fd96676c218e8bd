"""Directories as Spark sees them: on this machine or any file system that Hadoop supports. Driver side.

A directory of this machine is examined without Java. To Java every failed check is a missing file: without the right to
search the directory, at a link without a target, on a disk with errors.
"""

import contextlib
import fnmatch
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_from_bytes

# The right to search is enough for looking up a name.
_TO_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY

_AS_THEY_ARE, _LONGEST = " !#$&'()+,;=@[]^`{}~", 200


def identity(directory: str) -> str | None:
    """Return an identity that distinguishes directories at the same path; None if there is none. Raises OSError."""
    try:
        return _identity(os.stat(directory), os.statvfs(directory))
    except FileNotFoundError:
        return None


def ensure_nothing(path: str) -> None:
    """Raise OSError unless the system answers that `path` does not exist; a dangling link does exist."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    raise OSError("its target does not exist" if stat.S_ISLNK(found.st_mode) else "it exists, but cannot be read")


def is_gone(directory: str, known: str, name: str, is_it: Callable[[int, int], bool]) -> bool:
    """Say whether a file is certainly gone from `directory`, which must still have the identity `known`.

    It is gone if the answer is "no such file", or if the name belongs to another plain file: not `is_it(size,
    modified_ms)`. Any other outcome proves nothing.
    """
    try:
        place = os.open(directory, _TO_SEARCH)
    except OSError:
        return False
    try:
        return _identity(os.fstat(place), os.fstatvfs(place)) == known and _is_gone(place, name, is_it)
    except OSError:
        return False
    finally:
        os.close(place)


def names(directory: str) -> list[bytes]:
    """Return all names in a directory as bytes; none if it does not exist. Raises OSError."""
    try:
        return os.listdir(os.fsencode(directory))
    except FileNotFoundError:
        return []


def is_fit(name: bytes) -> bool:
    """Say whether Hadoop's paths support a name: it has no colon, and is UTF-8."""
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return b":" not in name


def unfit_files(directory: str, pattern: str, newest_s: float) -> list[bytes]:
    """Return the names that Hadoop's paths do not support, of files that are not hidden and match a pattern.

    Files that were changed after `newest_s` are left out.
    """
    unfit = [name for name in names(directory) if not is_fit(name) and not name.startswith((b".", b"_"))]
    fitting = [name for name in unfit if fnmatch.fnmatchcase(os.fsdecode(name), pattern)]
    return [name for name in fitting if _is_old(directory, name, newest_s)]


def set_aside(directory: str, name: bytes, target: str) -> str:
    """Move a file to another directory under a readable name; returns its path. Raises OSError."""
    os.makedirs(target, exist_ok=True)
    wanted = goal = f"{target}/{quote_from_bytes(name, safe=_AS_THEY_ARE)[-_LONGEST:]}"
    number = 0
    while os.path.lexists(goal):
        number += 1
        goal = f"{wanted}.{number}"
    shutil.move(f"{directory}/{os.fsdecode(name)}", goal)
    return goal


def _is_old(directory: str, name: bytes, newest_s: float) -> bool:
    try:
        found = os.stat(os.path.join(os.fsencode(directory), name))
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_mtime <= newest_s


def _is_gone(place: int, name: str, is_it: Callable[[int, int], bool]) -> bool:
    try:
        found = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return stat.S_ISREG(found.st_mode) and not is_it(found.st_size, found.st_mtime_ns // 1_000_000)


def _identity(directory: os.stat_result, system: os.statvfs_result) -> str:
    """Return an identity; device and inode alone could be the same for the next file system mounted there."""
    return f"{directory.st_dev}:{directory.st_ino}:{system.f_fsid}"


TAKEN = ".taken"
_HIDDEN = re.compile(rf"\.(?P<name>.+)\.(?P<size>\d+)\.(?P<modified_ms>-?\d+){re.escape(TAKEN)}", re.DOTALL)
_GLOB, _ESCAPED = re.compile(r"([\\*?\[\]{}])"), r"\\\1"
_LOCAL = "file"
_KEEP_TIMES = (_LOCAL, "hdfs", "viewfs", "webhdfs")


class DirectoryError(OSError):
    """A file or directory could not be listed, moved or deleted; nothing is lost."""


@dataclass(frozen=True)
class FoundFile:
    """A file's identity: another size or time of modification makes another file."""

    path: str
    size: int
    modified_ms: int
    is_taken: bool = field(default=False, compare=False)
    """The file waits under a hidden name to be moved or deleted."""

    @property
    def name(self) -> str:
        return _name(self.path)

    @property
    def parent(self) -> str:
        return self.path.rpartition("/")[0]

    def has(self, size: int, modified_ms: int) -> bool:
        return (self.size, self.modified_ms) == (size, modified_ms)


class SparkFileSystem:
    """File access through the JVM of a Spark session."""

    def __init__(self, session: Any) -> None:
        self._jvm = session._jvm
        self._conf = session._jsc.hadoopConfiguration()
        self._path = self._jvm.org.apache.hadoop.fs.Path  # once: the JVM is asked for each part of the name

    def identity(self, directory: str) -> str | None:
        """Return an identity that distinguishes directories at the same path; None if there is no directory.

        On this machine a mount can disappear, or a link change. Elsewhere the address is the identity.
        """
        path = self._path(directory)
        try:
            system = path.getFileSystem(self._conf)
            if _is_local(system):
                return identity(_local(path))
            return str(system.makeQualified(path).toString())
        except Exception as error:
            raise DirectoryError(f"{directory} cannot be looked at: {reason(error)}") from error

    def files(self, directory: str, pattern: str) -> list[FoundFile] | None:
        """Return the files directly in `directory`, except hidden ones; None if there is no such directory.

        A file that was taken to be moved or deleted, and is still there, counts under its former path. A file that
        cannot be accessed may be missing. Raises DirectoryError if the directory exists but cannot be listed.
        """
        path = self._path(directory)
        system = path.getFileSystem(self._conf)
        try:
            if not _exists(system, path):
                return None
            listed = self._listed(system, path)
        except Exception as error:
            raise DirectoryError(f"{directory} cannot be listed: {reason(error)}") from error
        found = []
        for status in listed:
            name = str(status.getPath().getName())
            taken = name.endswith(TAKEN) and file_of(name, self.qualified(directory))
            if name.startswith((".", "_")) and not taken:
                continue
            if fnmatch.fnmatchcase(taken.name if taken else name, pattern) and status.isFile():
                found.append(taken or _found(status))
        return list(dict.fromkeys(found))

    def _listed(self, system: Any, path: Any) -> list[Any]:
        """Return the statuses in a directory. Hadoop's own listing fails as a whole for a name with a colon."""
        if not _is_local(system):
            return list(system.listStatus(path))
        own = names(_local(path))
        if not any(b":" in name for name in own):
            return list(system.listStatus(path))
        directory, found = str(system.makeQualified(path).toString()), []
        for name in filter(is_fit, own):
            file = self._path(f"{directory}/{name.decode()}")
            if system.exists(file):
                found.append(system.getFileStatus(file))
        return found

    def local(self, directory: str) -> str | None:
        """Return a directory in a form that Python can open; None if it is not in this machine's file system."""
        path = self._path(directory)
        return _local(path) if _is_local(path.getFileSystem(self._conf)) else None

    def find(self, file: str) -> FoundFile | None:
        """Return the status of a path; None if it does not exist. Raises DirectoryError if that is unknown."""
        path = self._path(file)
        try:
            system = path.getFileSystem(self._conf)
            return _found(system.getFileStatus(path)) if _exists(system, path) else None
        except Exception as error:
            raise DirectoryError(f"{file} cannot be looked at: {reason(error)}") from error

    def head(self, file: str, most: int) -> bytes:
        """Return the first bytes of a file, decompressed; none if it cannot be read."""
        path = self._path(file)
        try:
            stream = path.getFileSystem(self._conf).open(path)
            try:
                codec = self._jvm.org.apache.hadoop.io.compress.CompressionCodecFactory(self._conf).getCodec(path)
                return bytes((stream if codec is None else codec.createInputStream(stream)).readNBytes(most))
            finally:
                stream.close()
        except Exception:
            return b""  # reading the file will fail, and report it

    def is_gone(self, file: FoundFile, directory: str | None) -> bool:
        """Say whether it is certain that a file is gone from its directory, which had the identity `directory`.

        Its own name, and the hidden one under which it waits to be moved, must answer that it is not there.
        """
        if directory is None:
            return False
        parent, own, waiting = self._path(file.parent), file.path, hidden(file)
        try:
            if _is_local(parent.getFileSystem(self._conf)):
                place = _local(parent)
                return is_gone(place, directory, _name(waiting), lambda *_: True) and (
                    is_gone(place, directory, _name(own), file.has)
                )
            return self.find(own) != file and self.find(waiting) is None and directory == self.identity(file.parent)
        except Exception:
            return False

    def delete(self, file: str) -> None:
        """Delete a file. Raises DirectoryError, also if it does not exist."""
        path = self._path(file)
        if not path.getFileSystem(self._conf).delete(path, False):
            raise DirectoryError(f"deleting {file} was refused")

    def rename(self, source: str, target: str) -> None:
        """Rename a file. Raises DirectoryError, or Hadoop's errors."""
        path = self._path(source)
        if not path.getFileSystem(self._conf).rename(path, self._path(target)):
            raise DirectoryError(f"renaming {source} was refused (rights, or a full disk)")

    def copy(self, source: str, target: str) -> None:
        """Copy a file over `target`; a failed copy is removed. Raises DirectoryError, or Hadoop's errors."""
        origin, goal = self._path(source), self._path(target)
        here, there = origin.getFileSystem(self._conf), goal.getFileSystem(self._conf)
        if _is_local(there):
            there = there.getRawFileSystem()  # without an additional file of checksums
        try:
            if not self._jvm.org.apache.hadoop.fs.FileUtil.copy(here, origin, there, goal, False, True, self._conf):
                raise DirectoryError(f"copying {source} was refused")
        except Exception:
            with contextlib.suppress(Exception):
                there.delete(goal, False)  # room for others on a full disk
            raise

    def make(self, directory: str) -> None:
        """Create a directory, and those above it, unless it exists. Raises Hadoop's errors."""
        path = self._path(directory)
        path.getFileSystem(self._conf).mkdirs(path)

    def are_near(self, directory: str, other: str) -> bool:
        """Say whether a file can be renamed from one directory to the other; otherwise a move is a copy."""
        systems = {str(self._path(d).getFileSystem(self._conf).getUri()) for d in (directory, other)}
        if len(systems) > 1 or not next(iter(systems)).startswith(f"{_LOCAL}:"):
            return len(systems) == 1
        return len({os.stat(_local(self._path(d))).st_dev for d in (directory, other)}) == 1

    def hidden_names(self, directory: str, end: str) -> list[str]:
        """Return the names of files in a directory that start with a dot and end with `end`."""
        local = self.local(directory)
        if local is not None:
            own = [name for name in names(local) if is_fit(name)]
            return [text for name in own if (text := name.decode()).startswith(".") and text.endswith(end)]
        pattern = self._path(f"{_GLOB.sub(_ESCAPED, directory)}/.*{end}")
        return [str(s.getPath().getName()) for s in pattern.getFileSystem(self._conf).globStatus(pattern) or ()]

    def keeps_times(self, path: str) -> bool:
        """Say whether a rename keeps a file's time of modification; an object store creates a new object."""
        return str(self._path(path).getFileSystem(self._conf).getUri().getScheme()) in _KEEP_TIMES

    def qualified(self, directory: str) -> str:
        """Return a path in the form of listings."""
        path = self._path(directory)
        return str(path.getFileSystem(self._conf).makeQualified(path).toString())


def hidden(file: FoundFile) -> str:
    """Return the hidden path next to a file under which it waits to be moved or deleted."""
    return f"{file.parent}/.{file.name}.{file.size}.{file.modified_ms}{TAKEN}"


def file_of(hidden_name: str, directory: str) -> FoundFile | None:
    """Return the file of `directory` that a hidden name belongs to; None for any other name."""
    found = _HIDDEN.fullmatch(hidden_name)
    if found is None:
        return None
    return FoundFile(f"{directory}/{found['name']}", int(found["size"]), int(found["modified_ms"]), is_taken=True)


def _exists(system: Any, path: Any) -> bool:
    """Say whether a path exists. Raises OSError if that cannot be determined."""
    if system.exists(path):
        return True
    if _is_local(system):
        ensure_nothing(_local(path))
    return False


def _is_local(system: Any) -> bool:
    return str(system.getUri().getScheme()) == _LOCAL


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _local(path: Any) -> str:
    return str(path.toUri().getPath())


def _found(status: Any) -> FoundFile:
    return FoundFile(str(status.getPath().toString()), int(status.getLen()), int(status.getModificationTime()))


def reason(error: Exception) -> str:
    """Return the first line of an error of Hadoop or others."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() or java.toString()) if java is not None else str(error)
    return text.strip().partition("\n")[0]


def option_faults(keys: Iterable[object], prefix: str) -> list[str]:
    """Return a fault for each key that names files of its own, or an option that is Spark's own (`__…`)."""
    options = ((key, str(key)[len(prefix) :].lower()) for key in keys if str(key).startswith(prefix))
    return [
        f"{key}: not an option that a connector may set; remove it"
        for key, option in options
        if option in ("path", "paths") or option.startswith("__")
    ]
