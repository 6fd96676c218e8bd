"""The directory of a files sink: on this machine, or any file system that Hadoop supports. Driver side.

A file is published whole or not at all: by a link on a local disk, by a rename on HDFS and similar file systems. In an
object store a rename is a copy, which appears whole, too.
Where a store has no rename, each file is copied to its name by one stream: a new file must appear whole there, when its
stream is closed and not before, and be listed from then on. Object stores do this. Disks and HDFS do not, but they have
a rename.
A file that was moved leaves a mark in its old place, and is never moved again: a late start finds the mark (E17). A
file that is merely missing was not published: its directory may be away.
"""

import contextlib
import errno
import filecmp
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Any

from fencepost.api import ConfigError
from fencepost.builtin.connector.file_system import DirectoryError, reason

_LOCAL = "file"
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EROFS})


class FilesStore(ABC):
    """File access below one directory, by relative paths. Raises DirectoryError, after which nothing is lost."""

    def __init__(self, root: str, scheme: str) -> None:
        self.root = root.rstrip("/")
        self.scheme = scheme

    def at(self, relative: str) -> str:
        """Return a path in the form that Spark expects."""
        return f"{self.root}/{relative}"

    @contextmanager
    def _explained(self, relative: str, done: str) -> Iterator[None]:
        try:
            yield
        except DirectoryError:
            raise
        except Exception as error:
            raise DirectoryError(f"{self.at(relative)} cannot be {done}: {reason(error)}") from error

    @abstractmethod
    def files(self, relative: str) -> dict[str, int]:
        """Return all files below a directory, sorted and relative to it, with sizes in bytes.

        The directory must exist.
        """

    @abstractmethod
    def names(self, relative: str) -> list[str]:
        """Return the entries of a directory; none if it does not exist."""

    @abstractmethod
    def read(self, relative: str) -> str | None:
        """Return the text of a small file; None if it does not exist."""

    @abstractmethod
    def write(self, relative: str, text: str) -> None:
        """Write a small file, which is on disk when this returns."""

    @abstractmethod
    def sync(self, files: Iterable[str], *, are_shown: bool = False) -> None:
        """Bring files, and the directories that contain them, to disk before anything relies on them.

        Published files may already have been removed by readers.
        """

    @abstractmethod
    def move(self, source: str, target: str) -> None:
        """Publish a file under its name, exactly once.

        A file with a mark was moved before by another start; readers may have removed it since. No file
        is ever replaced. Raises DirectoryError if a file without a mark is missing, or a file with other content has
        the name.
        """

    @abstractmethod
    def remove(self, relative: str) -> None:
        """Delete a directory with its contents."""


def files_store(session: Any, root: str, key: str = "path") -> FilesStore:
    """Return the store for the directory of a setting. Raises DirectoryError if Spark does not know its file system."""
    try:
        path = session._jvm.org.apache.hadoop.fs.Path(root)
        system = path.getFileSystem(session._jsc.hadoopConfiguration())
        is_local = str(system.getUri().getScheme()) == _LOCAL
        return LocalFiles(root, Path(str(path.toUri().getPath()))) if is_local else HadoopFiles(root, session, system)
    except Exception as error:
        raise DirectoryError(f"{key}={root} is not a directory that Spark can use: {reason(error)}") from error


class LocalFiles(FilesStore):
    """A directory of this machine, or one that is mounted at the same place on all machines."""

    def __init__(self, root: str, path: Path) -> None:
        super().__init__(root, _LOCAL)
        self.path = path

    def files(self, relative: str) -> dict[str, int]:
        top = self.path / relative
        with self._explained(relative, "listed"):
            found = sorted(Path(at, name) for at, _, names in os.walk(top, onerror=_fail) for name in names)
            return {str(path.relative_to(top)): path.stat().st_size for path in found if path.suffix != ".crc"}

    def names(self, relative: str) -> list[str]:
        with self._explained(relative, "listed"), contextlib.suppress(FileNotFoundError):
            return os.listdir(self.path / relative)
        return []

    def read(self, relative: str) -> str | None:
        with self._explained(relative, "read"), contextlib.suppress(FileNotFoundError):
            return (self.path / relative).read_text()
        return None

    def write(self, relative: str, text: str) -> None:
        with self._explained(relative, "written"):
            (self.path / relative).write_text(text)
        self.sync([relative])

    def sync(self, files: Iterable[str], *, are_shown: bool = False) -> None:
        paths = [self.path / file for file in files]
        directories = sorted({parent for path in paths for parent in path.parents})
        try:
            for path in (*paths, *directories):
                with contextlib.suppress(*([FileNotFoundError] if are_shown else ())):
                    _sync(path)
        except OSError as error:
            raise DirectoryError(f"{self.root} cannot be synced to disk: {error}") from error

    def move(self, source: str, target: str) -> None:
        origin, goal = self.path / source, self.path / target
        mark = self.path / mark_of(source)
        try:
            if origin.exists():
                self._show(origin, goal, mark, target)
            elif not mark.exists() and not goal.exists():
                raise missing_error(self, source, self, target)
        except DirectoryError:
            raise
        except OSError as error:
            if not (isinstance(error, FileNotFoundError) and mark.exists()):  # else another start has just shown it
                raise DirectoryError(f"{self.at(target)} cannot be published: {error}") from error

    def _show(self, origin: Path, goal: Path, mark: Path, target: str) -> None:
        goal.parent.mkdir(parents=True, exist_ok=True)
        way = _give_name(origin, goal)
        if way is _Naming.BEFORE and not _are_same(origin, goal):
            raise taken_error(self, target)
        if way is _Naming.BY_RENAME:
            mark.touch()
        else:
            origin.rename(mark)

    def make(self, relative: str) -> None:
        """Create a directory, and those above it."""
        with self._explained(relative, "created"):
            (self.path / relative).mkdir(parents=True)

    def remove(self, relative: str) -> None:
        shutil.rmtree(self.path / relative, ignore_errors=True)


class HadoopFiles(FilesStore):
    """A directory of any other file system, in which closed files are safe."""

    def __init__(self, root: str, session: Any, system: Any) -> None:
        super().__init__(root, str(system.getUri().getScheme()))
        self._jvm = session._jvm
        self._system = system

    def files(self, relative: str) -> dict[str, int]:
        top = self._at(relative)
        found = {}
        with self._explained(relative, "listed"):
            prefix = str(self._system.makeQualified(top).toString()).rstrip("/") + "/"
            walk = self._system.listFiles(top, True)
            while walk.hasNext():
                status = walk.next()
                found[str(status.getPath().toString()).removeprefix(prefix)] = int(status.getLen())
        return dict(sorted(found.items()))

    def names(self, relative: str) -> list[str]:
        top = self._at(relative)
        with self._explained(relative, "listed"):
            found = self._system.listStatus(top) if self._system.exists(top) else ()
            return [str(status.getPath().getName()) for status in found]

    def read(self, relative: str) -> str | None:
        with self._explained(relative, "read"):
            if not self._system.exists(self._at(relative)):
                return None
            with closing(self._system.open(self._at(relative))) as stream:
                return bytes(stream.readAllBytes()).decode()

    def write(self, relative: str, text: str) -> None:
        with self._explained(relative, "written"), closing(self._system.create(self._at(relative), True)) as stream:
            stream.write(bytearray(text.encode()))

    def sync(self, files: Iterable[str], *, are_shown: bool = False) -> None:
        """Do nothing: closed files are safe."""

    def move(self, source: str, target: str) -> None:
        origin, goal, mark = self._at(source), self._at(target), self._at(mark_of(source))
        with self._explained(target, "published"):
            if self._system.exists(origin):
                self._system.mkdirs(goal.getParent())
                if self._system.exists(goal) or not self._system.rename(origin, goal):
                    self._drop_if_same(origin, goal, target)
            elif self._system.exists(mark):
                return
            elif not self._system.exists(goal):
                raise missing_error(self, source, self, target)
            self._system.create(mark, True).close()

    def _drop_if_same(self, origin: Any, goal: Any, target: str) -> None:
        """Delete the original if it is published already; it is gone if another start published it in the meantime."""
        if not self._system.exists(origin) and self._system.exists(goal):
            return
        if not self._are_same(origin, goal):
            raise taken_error(self, target)
        self._system.delete(origin, False)

    def _are_same(self, one: Any, other: Any) -> bool:
        """Say whether two files have the same content. They are read unless their checksums are equal.

        Checksums may differ for the same content: in an object store they depend on the parts of the upload.
        """
        sums = [self._system.getFileChecksum(path) for path in (one, other)]
        if None not in sums and sums[0].equals(sums[1]):
            return True
        return are_same_content(self._jvm, (self._system, one), (self._system, other))

    def remove(self, relative: str) -> None:
        with self._explained(relative, "deleted"):
            self._system.delete(self._at(relative), True)

    def _at(self, relative: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.at(relative))


def are_same_content(jvm: Any, one: tuple[Any, Any], other: tuple[Any, Any]) -> bool:
    """Say whether two files have the same content, by reading them; each is given with its file system."""
    with closing(one[0].open(one[1])) as first, closing(other[0].open(other[1])) as second:
        return bool(jvm.org.apache.commons.io.IOUtils.contentEquals(first, second))


def taken_error(store: FilesStore, target: str) -> DirectoryError:
    """Return the error for a file that cannot be published because another one has its name."""
    return DirectoryError(
        f"{store.at(target)} already exists with other contents: it was written before offsets were set back, "
        "from a topic that was recreated, or by another connector. Move or delete it; the sink then continues"
    )


def missing_error(staged: FilesStore, source: str, shown: FilesStore, target: str) -> DirectoryError:
    """Return the error for an epoch that cannot be committed because one of its files is missing."""
    return DirectoryError(
        f"{staged.at(source)} is missing, and was not published as {shown.at(target)}: mount the file system, "
        f"or put the file back. If it was published and has been removed since, create {mark_of(source)} "
        f"below {staged.root}, empty; the sink then continues"
    )


def mark_of(source: str) -> str:
    """Return the path of the mark which says that a file was moved from its path."""
    return f"{source}.shown"


class _Naming(Enum):
    """How a file got its name."""

    BY_LINK = auto()
    BY_RENAME = auto()
    BEFORE = auto()


def _give_name(origin: Path, goal: Path) -> _Naming:
    """Give a file its name, unless it is taken; by a rename if the file system has no links."""
    try:
        os.link(origin, goal)
    except FileExistsError:
        return _Naming.BEFORE
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if goal.exists():
            return _Naming.BEFORE
        origin.rename(goal)
        return _Naming.BY_RENAME
    return _Naming.BY_LINK


def _are_same(one: Path, other: Path) -> bool:
    return one.samefile(other) or filecmp.cmp(one, other, shallow=False)


def _fail(error: OSError) -> None:
    raise error


def _sync(path: Path) -> None:
    """Bring a file or directory to disk, except for others' files, and directories that cannot be synced."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


_AT_ONCE_BYTES = 1 << 20
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
