"""A directory of this machine, examined without Java.

To Java every failed check is a missing file: without the right to search the directory, at a link without a target,
on a disk with errors.
"""

import fnmatch
import os
import shutil
import stat
from collections.abc import Callable
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
