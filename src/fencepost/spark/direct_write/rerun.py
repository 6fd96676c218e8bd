"""What `save` does before a direct write: it counts partitions, and compares what an earlier run has begun.

A task of a write cannot ask how many partitions there are, and each task commits by itself: a wrong `write.partitions`
would be noticed only after all rows are committed.

Spark gives a data source one job for each write. Its tasks run in any order, and only as many at a time as there are
cores, so a task cannot wait for others to be compared. If something is committed, the data source therefore refuses,
and `save` runs the same write three times: refused, as a comparison that writes nothing, and as the write of the rest,
in which each partition must have the rows that the comparison saw (decision 0019).
"""

import logging
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, DataFrameWriter

from fencepost.api import FatalError
from fencepost.spark.direct_write.options import (
    COMPARE_OPTION,
    COMPARED_OPTION,
    DirectWriteConfig,
    WritePartitionsError,
)

log = logging.getLogger(__name__)

_FORMAT = "fencepost"
_ADAPTIVE = "AdaptiveSparkPlanExec"
_UNSET_MODE = "ErrorIfExists"  # Spark's default, which a topic that exists would always fail
_ID, _PARTITIONS = DirectWriteConfig.key_of("write_id"), DirectWriteConfig.key_of("write_partitions")


@dataclass(frozen=True)
class _Declared:
    write_id: str
    partitions: int | None


def appending(writer: Any) -> Any:
    """Return a writer that appends if no mode was chosen, as one of Spark's own Kafka sink does."""
    try:
        is_ours, mode = writer._jwrite.source() == _FORMAT, str(writer._jwrite.curmode())
    except Exception as error:
        log.info("The mode of the write cannot be read: %s", error)
        return writer
    return writer.mode("append") if is_ours and mode == _UNSET_MODE else writer


def with_counted_partitions(writer: Any) -> Any:
    """Return a writer of the same rows and partitions, after counting them.

    Their number becomes `write.partitions`. It need not be the one of an earlier run: a rerun compares rows (decision
    0066). If Spark cuts a frame while it runs (AQE), the stages before the last one run now, and the returned writer
    continues from their output. Raises WritePartitionsError if the user has set another number.
    """
    try:
        declared = _declared(writer._jwrite)
    except Exception as error:
        log.info("The partitions of the frame cannot be counted before the write: %s", error)
        return writer
    if declared is None:
        return writer
    frame = writer._df
    execution = frame._jdf.queryExecution()
    rows = execution.toRdd()
    count = max(rows.getNumPartitions(), 1)  # Spark makes one partition of an empty frame
    if declared.partitions not in (None, count):
        raise WritePartitionsError(
            f"option write.partitions is {declared.partitions}, but the frame has {count}: nothing is written. Set "
            f"write.partitions={count} and keep write.id={declared.write_id}, or cut the frame into "
            f"{declared.partitions} with df.repartition({declared.partitions})"
        )
    writer = writer.option(_PARTITIONS, str(count))
    if execution.executedPlan().getClass().getSimpleName() != _ADAPTIVE:
        return writer
    session = frame.sparkSession
    cut = DataFrame(session._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False), session)
    made, given = cut.write, writer._jwrite
    made._jwrite = made._jwrite.format(given.source()).mode(given.curmode()).options(given.extraOptions())
    return made


def _declared(jwriter: Any) -> _Declared | None:
    """Return what a direct write with an id declares; None for any other write, and if it is not a number."""
    options = jwriter.extraOptions()
    if jwriter.source() != _FORMAT or not options.contains(_ID):
        return None
    write_id = str(options.get(_ID).get())
    if not options.contains(_PARTITIONS):
        return _Declared(write_id, None)
    text = str(options.get(_PARTITIONS).get()).strip()
    return _Declared(write_id, int(text)) if text.isdecimal() else None


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
