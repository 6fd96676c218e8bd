"""Notifications about changes of a file, if the system has them (Linux's inotify, on local file systems).

Hundreds of idle tasks that check their files every few hundredths of a second keep a core busy; a task that is woken
sees a line sooner, at no cost. A watch is a hint: the waiting task still checks from time to time, for changes through
a memory map, or in another layer of an overlay.
"""

import ctypes
import errno
import os
import struct
import threading
from collections.abc import Callable

_CHANGED = 0x2 | 0x4 | 0x400 | 0x800  # IN_MODIFY, IN_ATTRIB (also: unlinked), IN_DELETE_SELF, IN_MOVE_SELF
_ONCE = 0x80000000  # IN_ONESHOT: a constantly written file costs one event for each idle moment
_CLOSE_ON_EXEC = 0o2000000
_EVENT = struct.Struct("iIII")

# File systems whose writers are all on this machine: ext, xfs, btrfs, tmpfs, f2fs, zfs, overlay.
_LOCAL = {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0x2FC12FC1, 0x794C7630}

OnChange = Callable[[], None]


class FileWatch:
    """Calls `on_change`, from a thread of its own, when the file at a path has changed since `arm`."""

    def __init__(self, path: str, on_change: OnChange) -> None:
        self._path = os.fsencode(path)
        self._on_change = on_change
        self._is_possible: bool | None = None

    def arm(self) -> bool:
        """Request one notification of the next change. Returns False if there are none: check by yourself.

        A change between the last check and this call is not noticed: check again afterwards.
        """
        if self._is_possible is None and os.path.exists(self._path):
            self._is_possible = is_local(self._path)
        return bool(self._is_possible) and _notifier().arm(self._path, self._on_change)

    def close(self) -> None:
        """Stop the notifications. Idempotent."""
        if self._is_possible:
            _notifier().forget(self._on_change)


class _Notifier:
    """One inotify descriptor and one thread for all watches of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._lock = threading.Lock()
        self._waiting: dict[int, set[OnChange]] = {}
        self._descriptor = self._libc.inotify_init1(_CLOSE_ON_EXEC)
        if self._descriptor >= 0:
            threading.Thread(target=self._run, name="file-watch", daemon=True).start()

    def arm(self, path: bytes, on_change: OnChange) -> bool:
        """Watch a path. Paths of the same file (inode) share a watch."""
        if self._descriptor < 0:
            return False
        with self._lock:
            watch = self._libc.inotify_add_watch(self._descriptor, path, _CHANGED | _ONCE)
            if watch < 0:  # no such file, or no more watches for this user
                return False
            self._waiting.setdefault(watch, set()).add(on_change)
        return True

    def forget(self, on_change: OnChange) -> None:
        with self._lock:
            for watch, waiting in list(self._waiting.items()):
                waiting.discard(on_change)
                if not waiting:
                    del self._waiting[watch]
                    self._libc.inotify_rm_watch(self._descriptor, watch)

    def _run(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, 65536)
            except OSError as error:
                if error.errno == errno.EINTR:
                    continue
                return
            for on_change in self._take(data):
                on_change()

    def _take(self, data: bytes) -> set[OnChange]:
        woken: set[OnChange] = set()
        place = 0
        with self._lock:
            while place < len(data):
                watch, _, _, length = _EVENT.unpack_from(data, place)
                place += _EVENT.size + length
                woken |= self._waiting.pop(watch, set())
        return woken


_shared: _Notifier | None = None
_making = threading.Lock()


def _notifier() -> _Notifier:
    """Return this process's notifier; after a fork the child creates its own (E8)."""
    global _shared
    with _making:
        if _shared is None or _shared.pid != os.getpid():
            _shared = _Notifier()
        return _shared


def is_local(path: bytes) -> bool:
    """Say whether all writers of the file go through this system's kernel."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        answer = ctypes.create_string_buffer(512)
        if libc.statfs(path, answer) != 0:
            return False
    except (OSError, AttributeError):
        return False
    return int.from_bytes(answer.raw[: ctypes.sizeof(ctypes.c_long)], "little") & 0xFFFFFFFF in _LOCAL
