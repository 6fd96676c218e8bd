"""Counts the partitions of a frame before a write of it begins. Driver side, in the process that calls `save`.

A task of a write cannot ask how many partitions there are, and each task commits by itself: a wrong `write.partitions`
would be noticed only after all rows are committed.
"""

import logging
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from fencepost.spark.direct_write.options import WritePartitionsError, WriterConfig

log = logging.getLogger(__name__)

_FORMAT = "fencepost"
_ADAPTIVE = "AdaptiveSparkPlanExec"
_UNSET_MODE = "ErrorIfExists"  # Spark's default, which a topic that exists would always fail
_ID, _PARTITIONS = WriterConfig.key_of("write_id"), WriterConfig.key_of("write_partitions")


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
