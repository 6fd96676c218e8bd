"""The `fencepost` data source: rows into Kafka, exactly once.

By hand, in any Spark session:

    spark.dataSource.register(FencepostDataSource)
    (df.write.format("fencepost").mode("append")
       .option("kafka.bootstrap.servers", "localhost:9092").option("topic", "prices")
       .option("write.id", "prices-2026-11-21").option("write.partitions", 4)
       .save())

One transaction a partition. With `write.id` a rerun of the same deterministic write (same rows in the same partitions)
skips what is done, whatever happened in between. Without it the write is exactly-once only across Spark's own retries
of its tasks: running it again writes it again. Columns are those of Spark's Kafka sink (`value`, and `key`, `topic`,
`headers`, `partition`); a frame without `value` is written as JSON objects. `kafka.*` takes Java's names.

The runtime passes `fencepost.channel`, `fencepost.run` and `fencepost.reading` instead: everything else, secrets too,
is asked of the worker (E11).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

from fencepost.config import ConfigError
from fencepost.spark.columns import RecordColumns, check_types
from fencepost.spark.stream_end import ensure_complete, watch_streams

CHANNEL_OPTION = "fencepost.channel"
RUN_OPTION = "fencepost.run"
READING_OPTION = "fencepost.reading"


@dataclass
class PartitionWritten(WriterCommitMessage):  # type: ignore[misc]
    """What a partition's task tells the driver."""

    partition: int
    rows: int
    skipped: bool


class FencepostDataSource(DataSource):  # type: ignore[misc]
    """Writes only; `mode("append")` only."""

    @classmethod
    def name(cls) -> str:
        return "fencepost"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Check options and columns, before any row is read. Raises ConfigError."""
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: use mode("append")')
        options = {k: str(v) for k, v in self.options.items()}
        names = [f.name for f in schema.fields]
        if CHANNEL_OPTION in options:
            return SplitWriter(options, names)
        check_types({f.name: f.dataType.simpleString() for f in schema.fields})
        return HandWriter(options, names)


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        self.options = dict(options)
        self.names = names

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrive in a Python worker, where rows will be read next."""
        self.__dict__.update(state)
        watch_streams()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to take back: a transaction that was not committed is aborted by its writer or by the next one."""


class SplitWriter(_Writer):
    """The runtime's: a split, or several, as the worker describes it."""

    def write(self, iterator: Iterator[Any]) -> PartitionWritten:
        from fencepost.spark.partition import write_partition
        from fencepost.spark.split_run import SPLIT_COLUMN, split_run

        run = split_run(self.options[CHANNEL_OPTION], self.options[RUN_OPTION], self.options.get(READING_OPTION, ""))
        columns = RecordColumns([name for name in self.names if name != SPLIT_COLUMN], run.topic)
        with run.telling_expiry():
            written = write_partition(
                run, iterator, lambda batch: columns.outgoing(run.without_split(batch)), ensure_complete
            )
        run.report(written)
        return PartitionWritten(TaskContext.get().partitionId(), written.rows, written.skipped)


class HandWriter(_Writer):
    """`df.write.format("fencepost")`: see the module."""

    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        from fencepost.spark.hand import HandOptions

        super().__init__(options, names)
        self.parsed = HandOptions.parse(options)
        RecordColumns(names, self.parsed.topic)
        self.parsed.ensure_markers_topic()

    def write(self, iterator: Iterator[Any]) -> PartitionWritten:
        from fencepost.spark.hand import HandRun
        from fencepost.spark.partition import write_partition

        partition = TaskContext.get().partitionId()
        columns = RecordColumns(self.names, self.parsed.topic)
        run = HandRun(self.parsed, partition)
        written = write_partition(run, iterator, columns.outgoing, ensure_complete)
        return PartitionWritten(partition, written.rows, written.skipped)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Check that the frame had the partitions that the options say: a rerun relies on it."""
        from fencepost.spark.hand import WritePartitionsError

        declared = self.parsed.partitions
        if declared is not None and len(messages) != declared:
            raise WritePartitionsError(
                f"everything is written, but option write.partitions is {declared} and the frame has {len(messages)}: "
                f"say so when this write is run again, with another write.id"
            )
