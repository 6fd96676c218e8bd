"""The `fencepost` data source: rows into Kafka, exactly once, and out of it.

Reading is `spark.kafka_read`, and writing `spark.write`. Both work in any Spark session:

    (df.write.format("fencepost").mode("append")
       .option("kafka.bootstrap.servers", "localhost:9092").option("topic", "prices")
       .option("write.id", "prices-2026-11-21")
       .save())

Spark finds the data source by its name, through the package `pyspark_fencepost`.

A write, and a micro-batch of a stream, is one transaction. With `write.id` a rerun writes everything or, if everything
is committed, nothing. Without it, a rerun writes everything again. A program that imports this module may leave the
mode out.

Columns are those of Spark's Kafka sink (`value`, and `key`, `topic`, `headers`, `partition`, `timestamp`); a frame
without `value` is written as JSON objects. `kafka.*` takes Java's names.

The runtime passes `fencepost.channel`, `fencepost.run` and `fencepost.reading` instead, or `fencepost.ranges` when it
reads. It asks the worker for everything else, including secrets (E11).
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark import TaskContext
from pyspark.sql import DataFrameWriter
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from fencepost.config import ConfigError
from fencepost.spark.epoch.read import EpochRangeReader
from fencepost.spark.partition import (
    BATCH_OPTION,
    CHANNEL_OPTION,
    CSV_OPTION,
    FORMAT,
    RANGES_OPTION,
    READING_OPTION,
    RUN_OPTION,
)
from fencepost.spark.partition.stream_end import ensure_complete, watch_streams
from fencepost.spark.row.columns import RecordMaker, check_types
from fencepost.spark.row.kafka_columns import MADE_COLUMNS, chosen, columns, with_value
from fencepost.spark.row.registry import CONVERTER

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter

    from fencepost.spark.kafka_read.options import KafkaReadConfig
    from fencepost.spark.kafka_read.reading import QueryValues
    from fencepost.task.delivery.outgoing import OutgoingColumns


@dataclass
class PartitionWritten(WriterCommitMessage):  # type: ignore[misc]
    """What a partition's task reports to the driver."""

    partition: int
    rows: int
    skipped: bool


@dataclass
class PartitionLeft(WriterCommitMessage):  # type: ignore[misc]
    """Reports that a partition's lines cannot be cut; nothing that was open is committed."""

    reason: str


class FencepostDataSource(DataSource):  # type: ignore[misc]
    """Reads topics, as batches and as streams; writes with `mode("append")` only."""

    _values: "QueryValues | None" = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType | str:
        """Return the columns of records. Raises ConfigError for wrong options, which were not checked before."""
        config = self._read_config()
        values = self._query_values(config)
        if values is None:
            return columns(has_headers=config.has_headers)
        return with_value(has_headers=config.has_headers, value=values.columns())

    def reader(self, schema: Any) -> DataSourceReader:
        """Check options, and that the schema has only existing columns. Raises ConfigError."""
        if CHANNEL_OPTION in self.options:
            return _epoch_reader(self.options, schema)
        from fencepost.spark.kafka_read.batch import KafkaBatchReader

        return KafkaBatchReader(*self._query(schema))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        """Check options, and that the schema has only existing columns. Raises ConfigError."""
        if find_spec("pyspark.sql.streaming.datasource") is None:
            raise ConfigError(
                f"PySpark {pyspark.__version__} does not tell a stream where its last micro-batch ended: "
                'install "pyspark>=4.2", or read with spark.read'
            )
        from fencepost.spark.kafka_read.stream import KafkaStreamReader

        return KafkaStreamReader(*self._query(schema))

    def _query(self, schema: StructType) -> "tuple[KafkaReadConfig, dict[str, str], QueryValues | None]":
        config = self._read_config()
        values = self._query_values(config)
        kind = None if values is None else values.columns().simpleString()
        return config, chosen(schema, has_headers=config.has_headers, value=kind), values

    def _query_values(self, config: "KafkaReadConfig") -> "QueryValues | None":
        """Return the values' columns; the registry is asked once, as Spark keeps this object for the query."""
        if self._values is None and config.value_converter is not None:
            from fencepost.spark.kafka_read.source import query_values

            self._values = query_values(config)
        return self._values

    def _read_config(self) -> "KafkaReadConfig":
        from fencepost.spark.kafka_read.options import KafkaReadConfig

        return KafkaReadConfig.of({k: str(v) for k, v in self.options.items()})

    def streamWriter(self, schema: Any, overwrite: bool) -> "DataSourceStreamArrowWriter":  # noqa: N802
        """Check options and columns before any row is read. Raises ConfigError."""
        if overwrite:
            raise ConfigError(
                'outputMode("complete") writes the whole result in every micro-batch, and a topic cannot be '
                'overwritten: use outputMode("append"), or outputMode("update") with foreachBatch'
            )
        from fencepost.spark.write.stream import KafkaStreamWriter

        options = {k: str(v) for k, v in self.options.items()}
        return KafkaStreamWriter(options, _checked_names(schema, options))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        """Check options and columns before any row is read. Raises ConfigError."""
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: use mode("append")')
        options = {k: str(v) for k, v in self.options.items()}
        if CHANNEL_OPTION in options:
            names = [f.name for f in schema.fields]
            return RangeWriter(options, names) if RANGES_OPTION in options else SplitWriter(options, names)
        names = _checked_names(schema, options)
        if BATCH_OPTION in options:
            from fencepost.spark.write.stream import NumberedBatchWriter

            return NumberedBatchWriter(options, names)
        from fencepost.spark.write.frame import KafkaFrameWriter

        return KafkaFrameWriter(options, names)


def _checked_names(schema: StructType, options: Mapping[str, str]) -> list[str]:
    """Return the names of the columns. Raises ConfigError for a column of a wrong type."""
    types = {f.name: f.dataType.simpleString() for f in schema.fields}
    if CONVERTER in options:
        if "value" not in types:
            raise ConfigError(f"option {CONVERTER} writes the column value: select one, as struct(*) AS value")
        types["value"] = "binary"
    check_types(types)
    return list(types)


def _epoch_reader(options: Mapping[str, Any], schema: Any) -> EpochRangeReader:
    own = StructType([field for field in schema.fields if field.name not in MADE_COLUMNS])
    made = {field.name: field.dataType for field in schema.fields if field.name in MADE_COLUMNS}
    return EpochRangeReader(options, chosen(own, has_headers=True), made)


class _Writer(DataSourceArrowWriter):  # type: ignore[misc]
    def __init__(self, options: Mapping[str, str], names: list[str]) -> None:
        self.options = dict(options)
        self.names = names

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the writer in a Python worker, which reads rows next."""
        self.__dict__.update(state)
        watch_streams()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: a transaction that was not committed is aborted by its writer or by the next one."""


class SplitWriter(_Writer):
    """Used by the runtime: writes one split, or several, as the worker describes it."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        from fencepost.spark.partition.whereabouts import telling_where
        from fencepost.spark.partition.write import write_partition
        from fencepost.spark.row.csv_objects import CsvForm, LeftToSparkError, with_objects
        from fencepost.spark.split.run import SPLIT_COLUMN, split_run
        from fencepost.task.tracing.tracing import with_headers

        if self.options.get(CSV_OPTION):
            iterator = with_objects(iterator, CsvForm.decoded(self.options[CSV_OPTION]), SPLIT_COLUMN)
        run = split_run(self.options[CHANNEL_OPTION], self.options[RUN_OPTION], self.options.get(READING_OPTION, ""))
        columns = RecordMaker([name for name in self.names if name != SPLIT_COLUMN], run.topic)

        def outgoing(batch: Any) -> "OutgoingColumns":
            return with_headers(columns.outgoing(run.without_split(batch)), run.headers)

        try:
            with telling_where(self.options[CHANNEL_OPTION], self.options[RUN_OPTION]), run.telling():
                written = write_partition(run, iterator, outgoing, ensure_complete)
        except LeftToSparkError as error:
            return PartitionLeft(str(error))  # no failure: Spark would retry a failed task
        run.report(written)
        return PartitionWritten(TaskContext.get().partitionId(), written.rows, written.skipped)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Raise LeftToSparkError if lines could not be cut."""
        from fencepost.spark.row.csv_objects import LeftToSparkError

        for message in messages:
            if isinstance(message, PartitionLeft):
                raise LeftToSparkError(message.reason)


class RangeWriter(_Writer):
    """Used by the runtime: writes a query's output of an epoch's ranges; row partition `n` belongs to range `n`."""

    def write(self, iterator: Iterator[Any]) -> PartitionWritten:
        from fencepost.spark.epoch.output import write_range
        from fencepost.spark.epoch.read import asked_reading, ranges_of
        from fencepost.spark.partition.whereabouts import telling_where
        from fencepost.spark.row.registry import registry_converter
        from fencepost.spark.row.registry_columns import RegistryBytes
        from fencepost.task.tracing.tracing import with_headers

        partition = TaskContext.get().partitionId()
        reading = asked_reading(self.options[CHANNEL_OPTION], self.options[RUN_OPTION])
        topic = reading.output.topic if reading.output is not None and "topic" not in self.names else None
        columns = RecordMaker(self.names, topic)
        if reading.output is not None and reading.output.converter is not None:
            iterator = map(RegistryBytes(registry_converter(reading.output.converter), topic).written, iterator)
        range_ = ranges_of(self.options)[partition]

        def outgoing(batch: Any) -> "OutgoingColumns":
            return with_headers(columns.outgoing(batch), reading.headers)

        with telling_where(self.options[CHANNEL_OPTION], self.options[RUN_OPTION]):
            written = write_range(reading, range_, iterator, outgoing, ensure_complete)
        return PartitionWritten(partition, written.rows, written.skipped)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Check that no range was left out: Spark does not run a query at all if it knows that it returns no rows."""
        from fencepost.spark.epoch.read import ranges_of

        count = len(ranges_of(self.options))
        if len(messages) != count:
            raise ConfigError(f"transforms.sql never returns rows: Spark does not read any of the {count} ranges")


_UNSET_MODE = "ErrorIfExists"  # Spark refuses it for data sources in Python, before it asks them


def _appending(choose: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Return PySpark's `DataFrameWriter.format` with the mode of Spark's Kafka sink, append, if none was chosen."""

    @functools.wraps(choose)
    def format(writer: Any, source: str) -> Any:
        chosen = choose(writer, source)
        is_unset = source.lower() == FORMAT and str(chosen._jwrite.curmode()) == _UNSET_MODE
        return chosen.mode("append") if is_unset else chosen

    return format


DataFrameWriter.format = _appending(DataFrameWriter.format)
