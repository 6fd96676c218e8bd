"""What `save` does before a direct write: it counts partitions, and compares what an earlier run has begun.

Spark gives a data source one job for each write. Its tasks run in any order, and only as many at a time as there are
cores, so a task cannot wait for others to be compared. If something is committed, the data source therefore refuses,
and `save` runs the same write three times: refused, as a comparison that writes nothing, and as the write of the rest,
in which each partition must have the rows that the comparison saw (decision 0019).
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrameWriter

from fencepost.api import FatalError
from fencepost.spark.direct_write.frame_cut import appending, with_counted_partitions
from fencepost.spark.direct_write.options import COMPARE_OPTION, COMPARED_OPTION


class ComparisonNeededError(FatalError):
    """Part of the write is committed, and must be compared before anything more is written."""


class NothingLeftError(FatalError):
    """The whole write is committed."""


def compare_reruns() -> None:
    """Make PySpark's `DataFrameWriter.save` compare first if the data source asks for it. Idempotent."""
    if not getattr(DataFrameWriter.save, "compares_reruns", False):
        DataFrameWriter.save = _comparing(DataFrameWriter.save)


def _comparing(save: Callable[..., None]) -> Callable[..., None]:
    def comparing(
        self: Any, path: Any = None, format: str | None = None, mode: str | None = None, *more: Any, **options: Any
    ) -> None:
        self.mode(mode).options(**options)
        if format is not None:
            self.format(format)
        writer = with_counted_partitions(appending(self))
        try:
            save(writer, path, None, None, *more)
        except Exception as error:
            if not _has_cause(error, ComparisonNeededError):
                raise
        else:
            return
        with tempfile.TemporaryDirectory(prefix="fencepost-") as directory:
            _compare_and_write(lambda: save(writer, path, None, None, *more), writer, Path(directory) / "compared.json")

    comparing.__doc__ = save.__doc__
    comparing.compares_reruns = True  # type: ignore[attr-defined]
    return comparing


def _compare_and_write(save: Callable[[], None], writer: Any, file: Path) -> None:
    try:
        writer.option(COMPARE_OPTION, str(file))
        save()
        writer.option(COMPARE_OPTION, "").option(COMPARED_OPTION, str(file))
        save()
    except Exception as error:
        if not _has_cause(error, NothingLeftError):
            raise
    finally:
        writer.option(COMPARE_OPTION, "").option(COMPARED_OPTION, "")


def _has_cause(error: Exception, kind: type[Exception]) -> bool:
    """Say whether planning ended with an error of this class: Spark passes on only its name and text."""
    return f"{kind.__module__}.{kind.__qualname__}: " in str(error)
