"""`df.write.format("fencepost")` inside `foreachBatch`: a micro-batch is one transaction, as in `spark.write.stream`.

Spark lets no data source in Python take the output mode `update`. A function for `foreachBatch` can write the batch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from fencepost.config import ConfigError
from fencepost.spark.partition.options import BATCH_OPTION
from fencepost.spark.write.stream import KafkaStreamWriter


class NumberedBatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writes a micro-batch with the number of option `batch.id`; one that is decided is skipped."""

    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        """Check options and columns. Raises ConfigError."""
        number = options[BATCH_OPTION]
        if not number.isdecimal():
            raise ConfigError(f"option {BATCH_OPTION} is {number}: set it to the number that foreachBatch passes")
        self._number = int(number)
        own = {key: value for key, value in options.items() if key != BATCH_OPTION}
        self._stream = KafkaStreamWriter(own, names, is_gapless=False)  # a function may leave a micro-batch out

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of a task, on an executor."""
        return self._stream.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Send what was staged, with the decision, unless it is decided already."""
        self._stream.commit(messages, self._number)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged."""
        self._stream.abort(messages, self._number)
