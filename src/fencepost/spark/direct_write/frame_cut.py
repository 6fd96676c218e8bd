"""How many partitions a frame has, counted before a write of it begins. Driver side, in the process that calls `save`.

A task of a write cannot ask how many there are, and each commits by itself: a wrong `write.partitions` would be noticed
when all rows are committed.
"""

import logging
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from fencepost.spark.direct_write.options import WritePartitionsError

log = logging.getLogger(__name__)

_FORMAT = "fencepost"
_ADAPTIVE = "AdaptiveSparkPlanExec"


@dataclass(frozen=True)
class _Declared:
    write_id: str
    partitions: int


def with_counted_partitions(writer: Any) -> Any:
    """Return a writer of the same rows in the same partitions, as many as option `write.partitions` says.

    Where Spark cuts a frame while it runs (AQE), what comes before the last stage runs now, and the writer that is
    returned goes on with its outcome. Raises WritePartitionsError where there are more or fewer partitions.
    """
    try:
        declared = _declared(writer._jwrite)
    except Exception as error:
        log.info("The partitions of the frame are not counted before it is written: %s", error)
        return writer
    if declared is None:
        return writer
    frame = writer._df
    execution = frame._jdf.queryExecution()
    rows = execution.toRdd()
    count = max(rows.getNumPartitions(), 1)  # of an empty frame Spark makes one
    if count != declared.partitions:
        raise WritePartitionsError(
            f"option write.partitions is {declared.partitions}, and the frame has {count}: nothing is written. Set "
            f"write.partitions={count}, with write.id={declared.write_id} as it is, or cut the frame in "
            f"{declared.partitions} with df.repartition({declared.partitions})"
        )
    if execution.executedPlan().getClass().getSimpleName() != _ADAPTIVE:
        return writer
    session = frame.sparkSession
    cut = DataFrame(session._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False), session)
    made, given = cut.write, writer._jwrite
    made._jwrite = made._jwrite.format(given.source()).mode(given.curmode()).options(given.extraOptions())
    return made


def _declared(jwriter: Any) -> _Declared | None:
    """Return what a write of ours with an id says of its partitions; None for any other, and where it is no number."""
    options = jwriter.extraOptions()
    if jwriter.source() != _FORMAT or not options.contains("write.id"):
        return None
    text = str(options.get("write.partitions").get()).strip() if options.contains("write.partitions") else ""
    return _Declared(str(options.get("write.id").get()), int(text)) if text.isdecimal() else None
