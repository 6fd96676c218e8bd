"""Publishes files in a store that has no rename: each is copied to its name by one stream. Driver side.

In such a store a new file must appear whole, when its stream is closed and not before, and be listed from then on.
Object stores do this. Disks and HDFS do not, but they have a rename.
"""

import contextlib
from contextlib import closing
from typing import Any

from fencepost.api import ConfigError
from fencepost.builtin.connector.file_system.spark import DirectoryError, reason
from fencepost.builtin.connector.files.store import FilesStore, are_same_content, mark_of, missing_error, taken_error

_AT_ONCE_BYTES = 1 << 20
_LOCAL = "file"
_SEEN_WHILE_WRITTEN = frozenset({_LOCAL, "hdfs", "viewfs", "webhdfs"})


def check_whole(store: FilesStore) -> None:
    """Raise ConfigError for a directory in which readers would see unfinished copies."""
    if store.scheme in _SEEN_WHILE_WRITTEN:
        raise ConfigError(
            f"aside.path: path={store.root} is on a file system, {store.scheme}, that shows files while they are "
            "written and can rename them: remove aside.path, which is for object stores without rename"
        )


class FilesCopy:
    """Copies files from the file system where they were written to the one where they are published."""

    def __init__(self, session: Any, staged: FilesStore, shown: FilesStore) -> None:
        self._jvm = session._jvm
        self._hadoop = session._jvm.org.apache.hadoop
        self._conf = session._jsc.hadoopConfiguration()
        self._staged = staged
        self._shown = shown

    def move(self, source: str, target: str) -> None:
        """Publish a file under its name, then rename the original, which marks it as published (E17).

        As in `FilesStore.move`: a file with a mark was published before, and no other file is ever replaced.
        """
        try:
            self._move(source, target)
        except DirectoryError:
            raise
        except Exception as error:
            raise DirectoryError(f"{self._shown.at(target)} cannot be published: {reason(error)}") from error

    def _move(self, source: str, target: str) -> None:
        (here, origin), (there, goal) = self._found(self._staged.at(source)), self._found(self._shown.at(target))
        mark = self._found(self._staged.at(mark_of(source)))[1]
        if not here.exists(origin):
            if not here.exists(mark) and not there.exists(goal):
                raise missing_error(self._staged, source, self._shown, target)
            return
        if not there.exists(goal):
            there.mkdirs(goal.getParent())
            self._copy(here, origin, there, goal)
        elif not are_same_content(self._jvm, (here, origin), (there, goal)):
            raise taken_error(self._shown, target)
        self._shown.sync([target], are_shown=True)  # before it says so
        if not here.rename(origin, mark) and not here.exists(mark):
            raise DirectoryError(f"{self._staged.at(source)} cannot be renamed to mark it as published")

    def _found(self, path: str) -> tuple[Any, Any]:
        """Return a path and its file system; a local one without checksum files."""
        found = self._hadoop.fs.Path(path)
        system = found.getFileSystem(self._conf)
        return (system.getRaw() if str(system.getUri().getScheme()) == _LOCAL else system), found

    def _copy(self, here: Any, origin: Any, there: Any, goal: Any) -> None:
        with closing(here.open(origin)) as data:
            out = there.create(goal, False)
            try:
                self._hadoop.io.IOUtils.copyBytes(data, out, _AT_ONCE_BYTES, False)
            except Exception:
                with contextlib.suppress(Exception):
                    out.abort()  # not close, which would publish what was copied: the stream stays open if need be
                raise
            out.close()
