"""`format("dying")`: Fencepost's sink in tasks that die, each when a test has set a flag for that.

Nothing of the sink is changed: the process ends before its `write` begins, in the middle of the rows, or once it has
returned. A flag is a file, and the task that removes it is the one that dies. By another flag a task that has written
does not end until a copy of it has written, too.
"""

import os
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from fencepost.spark.datasource import FencepostDataSource

NAME, FLAG = "dying", "dying.flag"
_CODE = 9
_LOOK_S = 0.05


class Dies(StrEnum):
    """When a task dies."""

    BEFORE = "before its write"
    MIDDLE = "in the middle of its rows"
    AFTER = "after its write"


def flag(path: str, when: Dies) -> Path:
    """Return the file that has the next task of a query die."""
    return Path(f"{path}-{when.name.lower()}")


def stall_flag(path: str) -> Path:
    """Return the file that has the next task of a query stall."""
    return Path(f"{path}-stalls")


def stalled(path: str) -> Path:
    """Return the file that is there while a task stalls. It has the id of its process, its stage and its partition."""
    return Path(f"{path}-stalled")


class DyingSource(FencepostDataSource):
    """The option `dying.flag` is the path that the flags begin with; all others are the sink's."""

    def __init__(self, options: Any) -> None:
        super().__init__(type(options)({key: value for key, value in options.items() if key.lower() != FLAG}))
        self._flag = options.get(FLAG)

    @classmethod
    def name(cls) -> str:
        return NAME

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802
        return _DyingStreamWriter(super().streamWriter(schema, overwrite), self._flag)

    def writer(self, schema: Any, overwrite: bool) -> Any:
        return _DyingBatchWriter(super().writer(schema, overwrite), self._flag)


class _Dying:
    """Passes everything on to the sink's writer, and dies where a flag says so."""

    def __init__(self, writer: Any, path: str) -> None:
        self._writer = writer
        self._path = path

    def write(self, iterator: Iterator[Any]) -> Any:
        self._maybe_die(Dies.BEFORE)
        message = self._writer.write(self._rows(iterator))
        self._maybe_die(Dies.AFTER)
        self._maybe_stall()
        return message

    def commit(self, *given: Any) -> None:
        self._writer.commit(*given)

    def abort(self, *given: Any) -> None:
        self._writer.abort(*given)

    def _rows(self, iterator: Iterator[Any]) -> Iterator[Any]:
        for batch in iterator:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            self._maybe_die(Dies.MIDDLE)
            yield batch.slice(half)

    def _maybe_die(self, when: Dies) -> None:
        try:
            flag(self._path, when).unlink()
        except FileNotFoundError:
            return
        os._exit(_CODE)

    def _maybe_stall(self) -> None:
        task, mark = TaskContext.get(), stalled(self._path)
        own = f"{task.stageId()} {task.partitionId()}"
        if task.attemptNumber():
            if mark.exists() and mark.read_text().partition(" ")[2] == own:
                mark.unlink(missing_ok=True)
            return
        try:
            stall_flag(self._path).unlink()
        except FileNotFoundError:
            return
        written = mark.with_suffix(f".{os.getpid()}")
        written.write_text(f"{os.getpid()} {own}")
        written.rename(mark)
        while mark.exists():
            time.sleep(_LOOK_S)


class _DyingStreamWriter(_Dying, DataSourceStreamArrowWriter):
    pass


class _DyingBatchWriter(_Dying, DataSourceArrowWriter):
    pass
