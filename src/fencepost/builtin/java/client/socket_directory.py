"""Private directories for the sockets of hosts."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = "fencepost-host-"
_OWNER = "owner"
_LONGEST = 60  # paths of sockets have at most 107 bytes


class SocketDirectory:
    """A new directory, in which this process has locked a file as long as it lives and has not removed it.

    A process that is killed leaves its directory behind. The next one of the same user removes it.
    """

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent or Path("/tmp" if len(tempfile.gettempdir()) > _LONGEST else tempfile.gettempdir())
        for each in self._parent.glob(f"{_PREFIX}*"):
            _remove_if_abandoned(each)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=self._parent))
        self._owner = os.open(self.path / "new", os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._owner, fcntl.LOCK_EX)
        os.rename(self.path / "new", self.path / _OWNER)  # nobody else ever sees it without a lock

    def remove(self) -> None:
        """Remove the directory. Does nothing the second time."""
        shutil.rmtree(self.path, ignore_errors=True)
        owner, self._owner = self._owner, -1
        if owner >= 0:
            os.close(owner)


def _remove_if_abandoned(path: Path) -> None:
    """Remove a directory of this user whose owner is no more; one without the file of an owner is just being made."""
    with contextlib.suppress(OSError):
        if path.is_symlink() or path.lstat().st_uid != os.geteuid():
            return
        owner = os.open(path / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: the owner lives
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(owner)
