"""Which files of a machine connectors may read and write (docs/decisions/0110).

A process has one limit: that of the worker's file, which slots on other machines get with their tasks. A worker's own
files are never a connector's: who can write them, or read what they say, is an administrator.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from fencepost.config.check import Check

ALLOWED = "connector.file.allowed.paths"
"""The key of the setting."""
_LOCAL = ("file", "har")
"""The schemes of Hadoop's file systems whose files are those of the machine."""


@dataclass(frozen=True)
class FileLimit:
    """What is allowed and what is refused: files, and directories with everything below them.

    `allowed`: None for any that is not refused.
    """

    allowed: tuple[str, ...] | None = None
    refused: tuple[str, ...] = ()

    def fault(self, path: str) -> str | None:
        """Return why a connector may not use a path, wherever its links lead; None if it may."""
        found = os.path.realpath(path)
        if any(_is_of(found, os.path.realpath(own)) for own in self.refused):
            return "this is where the worker has files of its own; name another path"
        if self.allowed is None or any(_is_below(found, os.path.realpath(each)) for each in self.allowed):
            return None
        return f"it is not below {ALLOWED} of the worker; name a path there"

    def directory_fault(self, path: str) -> str | None:
        """Return the same for a path of any file system that Spark knows; only those of this machine have a limit."""
        return next(filter(None, map(self.fault, _on_this_machine(path))), None)


_limit = FileLimit()


def file_limit() -> FileLimit:
    """Return the limit of this process."""
    return _limit


def use_file_limit(limit: FileLimit) -> None:
    """Limit the connectors of this process."""
    global _limit
    _limit = limit


def keep_from_connectors(paths: Iterable[str]) -> None:
    """Refuse these paths, too."""
    added = (os.path.abspath(path) for path in paths)
    use_file_limit(replace(_limit, refused=tuple(dict.fromkeys((*_limit.refused, *added)))))


def a_file(check: Check | None = None) -> Check:
    """Return a check for the path of a file that connectors may use; `check` comes first."""
    return _limited(lambda path: file_limit().fault(path), check)


def a_directory(check: Check | None = None) -> Check:
    """Return the same for a directory, of any file system that Spark knows."""
    return _limited(lambda path: file_limit().directory_fault(path), check)


def _limited(fault: Callable[[str], str | None], check: Check | None) -> Check:
    def test(path: str) -> str | None:
        reason = check(path) if check is not None else None
        return reason or (fault(path) if path else None)

    return Check(test, check.text if check is not None else "")


def _is_of(path: str, own: str) -> bool:
    """Say whether a path is one of the worker's own, or the directory in which such a file is."""
    return _is_below(path, own) or (path == os.path.dirname(own) and not os.path.isdir(own))


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip(os.sep) + os.sep)


def _on_this_machine(path: str) -> Iterator[str]:
    """Yield what a path of Hadoop's may be on this machine; nothing for one of another file system.

    A scheme is what comes before the first colon, if there is no slash before it.
    """
    scheme, colon, rest = path.partition(":")
    if colon and "/" not in scheme:
        if scheme.lower() not in _LOCAL:
            return
        path = rest
    else:
        yield path
    if path.startswith("//"):  # and the name of a host
        path = f"/{path[2:].partition('/')[2]}"
    yield path
