"""FileStreamSink: each value as a line of one file, as in Kafka's connector of that name.

Several tasks append to the file.
"""

import fcntl
import os
import stat
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

from fencepost.api import (
    HIGH,
    BinaryColumn,
    ExactlyOnceSupport,
    FatalError,
    Repeated,
    RetriableError,
    Schema,
    SinkBatch,
    SinkConnector,
    SinkTask,
    TopicPartition,
    Utf8Column,
    setting,
)
from fencepost.builtin.connector.file_stream.watch import is_local
from fencepost.config.connector_limit import a_file, file_limit
from fencepost.record.java_value import java_text, java_texts

LONGEST_WAIT_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.02
_MOST_PIECES = 512  # in one call; systems take 1,024

Piece = bytes | memoryview


class LineFile:
    """Appends whole lines. Lines of several tasks are never mixed, whatever their size, even if a task is killed.

    Tasks may be threads of a process, processes, or on machines that share a network file system.

    1. They take turns with a lock on the file (flock). It ends with the process that holds it.
    2. The task that gets the lock first ends a line that a killed task left unfinished.
    3. On a local file system, a task does not wait for a lock whose holder is frozen. A single appending call is never
       mixed with another there; if it followed an unfinished line, the lines are written again.
    """

    def __init__(self, path: str) -> None:
        """Open the file; it is created if it does not exist. Raises FatalError."""
        self._path = path
        self._is_held_up = False  # the last wait for the lock failed
        if (fault := file_limit().fault(path)) is not None:
            raise FatalError(f"file={path}: {fault}")
        is_special = os.path.exists(path) and not os.path.isfile(path)  # such as a FIFO, which is not read here
        flags = (os.O_WRONLY if is_special else os.O_RDWR) | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            self._descriptor = os.open(path, flags, 0o666)
        except OSError as error:
            raise self._cannot_be("written and read", error) from error
        self._is_regular = stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def append(self, pieces: Sequence[Piece]) -> None:
        """Write pieces that are whole lines together.

        Raises RetriableError if nothing was written because another task keeps the file locked, and FatalError if the
        file cannot be written.
        """
        try:
            if not self._is_regular:
                self._write(pieces)
            elif self._lock():
                self._append_alone(pieces)
            else:
                self._append_among_others(pieces)
        except OSError as error:
            raise self._cannot_be("written", error) from error

    def sync(self) -> None:
        """Return once everything is on disk."""
        if self._is_regular:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _lock(self) -> bool:
        """Take the lock. Returns False if it is not available, on a file system where appending needs none."""
        give_up_at = time.monotonic() + (0 if self._is_held_up else LONGEST_WAIT_S)
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            except OSError as error:
                what = "locked (flock), so lines of two tasks could be mixed; choose a file system that has locks"
                raise self._cannot_be(what, error) from error
            else:
                self._is_held_up = False
                return True
            if time.monotonic() >= give_up_at:
                break
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        if not is_local(os.fsencode(self._path)):
            raise RetriableError(f"file={self._path}: another task has kept it locked for {LONGEST_WAIT_S:g} s")
        self._is_held_up = True
        return False

    def _append_alone(self, pieces: Sequence[Piece]) -> None:
        try:
            end = os.fstat(self._descriptor).st_size
            lines = pieces if self._is_start_of_a_line(end) else [b"\n", *pieces]
            start, end = self._write(lines)
            begin = end - sum(map(len, pieces))
            if end - start != sum(map(len, lines)) or not self._is_start_of_a_line(begin):
                self._append_among_others(pieces)  # this task was frozen, and another one appended without the lock
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _append_among_others(self, pieces: Sequence[Piece]) -> None:
        size = sum(map(len, pieces))
        start, end = self._write(pieces)
        while end - start != size or not self._is_start_of_a_line(end - size):
            start, end = self._write([b"\n", *pieces])
            start += 1

    def _is_start_of_a_line(self, position: int) -> bool:
        return position == 0 or os.pread(self._descriptor, 1, position - 1) == b"\n"

    def _write(self, pieces: Sequence[Piece]) -> tuple[int, int]:
        """Return the positions of the first byte and after the last; there may be others' bytes in between."""
        left: list[Piece] = list(pieces)
        start = None
        while left:
            written = os.writev(self._descriptor, left[:_MOST_PIECES])
            if start is None and self._is_regular:
                start = os.lseek(self._descriptor, 0, os.SEEK_CUR) - written
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if written:
                left[0] = memoryview(left[0])[written:]
        return start or 0, os.lseek(self._descriptor, 0, os.SEEK_CUR) if self._is_regular else 0

    def _cannot_be(self, what: str, error: OSError) -> FatalError:
        return FatalError(f"file={self._path}: it cannot be {what}: {error.strerror or error}")


class FileStreamSinkTask(SinkTask):
    """Appends to the file. After a crash what was not committed is appended again: at least once, as in Kafka."""

    most_records = 5_000
    config: "FileStreamSinkConnector"
    out: LineFile | None = None

    def start(self) -> None:
        if self.config.file is not None:
            self.out = LineFile(self.config.file)

    def put(self, batch: SinkBatch) -> None:
        if not len(batch):
            return
        pieces = _lines(batch)
        if self.out is not None:
            self.out.append(pieces)  # readers of the file see it at once
        else:
            sys.stdout.buffer.write(b"".join(pieces))  # in one call: tasks of a slot share it
            sys.stdout.buffer.flush()

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the file to disk."""
        if self.out is not None:
            self.out.sync()

    def stop(self) -> None:
        if self.out is not None:
            self.out.close()


def _lines(batch: SinkBatch) -> Sequence[Piece]:
    values = batch.values
    if isinstance(values, Utf8Column):
        lines = values.utf8()
        if isinstance(lines, BinaryColumn):
            from fencepost.builtin.connector.file_stream.lines import joined_lines  # Arrow, for those who use it

            return [piece for chunk in lines.chunks for piece in joined_lines(chunk)]
        return b"\n".join(lines), b"\n"
    texts = _texts(batch.value_schemas, values)
    return (("\n".join(texts) + "\n").encode("utf-8", "replace"),)


def _texts(schemas: Sequence[Schema | None], values: Sequence[object]) -> Iterable[str]:
    """Return the texts that Java prints for values; bytes as hexadecimal, since Java prints only their address."""
    if isinstance(schemas, Repeated):
        return java_texts(schemas.value, values, _hexadecimal)
    return (java_text(schema, value, _hexadecimal) for schema, value in zip(schemas, values, strict=True))


def _hexadecimal(data: bytes | bytearray | memoryview) -> str:
    return data.hex()


class FileStreamSinkConnector(SinkConnector):
    """Appends the value of each record to a file, or to the standard output of the task's process.

    Each value is written as a line of text; a record without a value as `null`. Several tasks can share a file: their
    lines are not mixed, even on a network file system, if its locks apply to all machines.
    """

    task = FileStreamSinkTask

    file: str | None = setting(
        "file",
        default=None,
        check=a_file(),
        importance=HIGH,
        doc="Destination filename. If not specified, the standard output will be used",
    )

    def exactly_once_support(self) -> ExactlyOnceSupport | None:
        return ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Accept any change: only the group has positions."""
        return True
