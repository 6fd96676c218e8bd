"""A folder that executors and the driver may share: of a file system of theirs, or of an object store."""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import fs

from fencepost.config import ConfigError

_FILE = "file:"
_S3A, _S3 = "s3a://", "s3://"


@dataclass(frozen=True)
class Folder:
    """A folder at a path or a URI. Methods raise OSError, or ConfigError if no file system of Arrow has such URIs."""

    location: str

    def below(self, *names: str) -> "Folder":
        return Folder("/".join([self.location.rstrip("/"), *names]))

    @property
    def is_local(self) -> bool:
        return isinstance(self._opened[0], fs.LocalFileSystem)

    def create(self) -> None:
        """Create it and the folders above it. Idempotent."""
        system, path = self._opened
        system.create_dir(path, recursive=True)

    def exists(self) -> bool:
        system, path = self._opened
        return bool(system.get_file_info(path).type == fs.FileType.Directory)

    def has(self, name: str) -> bool:
        """Return whether a file is there."""
        system, path = self._opened
        return bool(system.get_file_info(f"{path}/{name}").type == fs.FileType.File)

    def remove(self) -> None:
        """Remove it with all that is in it. Idempotent."""
        if self.exists():
            system, path = self._opened
            system.delete_dir(path)

    def size_bytes(self) -> int:
        """Return the size of all files in it."""
        system, path = self._opened
        return sum(each.size or 0 for each in system.get_file_info(fs.FileSelector(path)))

    def writable(self, name: str) -> Any:
        """Create a file, and return a stream to write it."""
        system, path = self._opened
        return system.open_output_stream(f"{path}/{name}")

    def readable(self, name: str) -> Any:
        """Return a file to read. A local one is mapped, and not copied."""
        system, path = self._opened
        return system.open_input_file(f"{path}/{name}")

    def names(self) -> list[str]:
        """Return the names of what is in it; none if it does not exist."""
        system, path = self._opened
        return [each.base_name for each in system.get_file_info(fs.FileSelector(path, allow_not_found=True))]

    def text(self, name: str) -> str:
        """Return a file of UTF-8 text."""
        with self.readable(name) as file:
            return str(file.read().decode())

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        given = self.location
        if given.startswith(_FILE):
            given = "/" + given.removeprefix(_FILE).lstrip("/")
        if "://" not in given:
            return fs.LocalFileSystem(use_mmap=True), os.path.abspath(given)
        if given.startswith(_S3A):
            given = _S3 + given.removeprefix(_S3A)
        try:
            system, path = fs.FileSystem.from_uri(given)
        except (pa.ArrowInvalid, NotImplementedError) as error:
            raise ConfigError(f"{self.location} is in a file system that Arrow cannot open: {error}") from error
        return system, path.rstrip("/")

    def __getstate__(self) -> dict[str, Any]:
        return {"location": self.location}
