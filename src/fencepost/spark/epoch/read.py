"""Reads an epoch on executors. The plan contains what to read; the worker provides access to it (E11)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql.datasource import DataSourceReader, InputPartition

from fencepost.kafka.value.position import LogRange
from fencepost.record import TopicPartition
from fencepost.spark.partition import (
    CHANNEL_OPTION,
    PAYLOAD_OPTION,
    RANGES_OPTION,
    REGISTRY_OPTION,
    RUN_OPTION,
)
from fencepost.spark.row.kafka_columns import MISFIT_REASON, PARSED, READ, arrow_columns, with_registry

if TYPE_CHECKING:
    from fencepost.api import Epoch
    from fencepost.task.channel.split_message import EpochReading


def options_of(epoch: "Epoch", channel_url: str, run: str) -> dict[str, str]:
    """Return the options with which the data source reads an epoch; its schema names the columns."""
    ranges = [[each.topic, each.partition, each.start, each.end] for each in epoch.ranges]
    return {CHANNEL_OPTION: channel_url, RUN_OPTION: run, RANGES_OPTION: orjson.dumps(ranges).decode()}


def ranges_of(options: Mapping[str, str]) -> list[LogRange]:
    """Return the ranges from the options that `options_of` made."""
    found = orjson.loads(options[RANGES_OPTION])
    return [LogRange(TopicPartition(topic, partition), start, end) for topic, partition, start, end in found]


def asked_reading(channel_url: str, run: str) -> "EpochReading":
    """Ask the worker about a run, on an executor. Raises ChannelError."""
    from fencepost.task.channel.client import ChannelClient
    from fencepost.task.channel.message import Path
    from fencepost.task.channel.split_message import EpochReading, RunRequest

    return EpochReading.from_json(ChannelClient(channel_url).call(Path.EPOCH_READING, RunRequest(run).to_json()))


class EpochRangeReader(DataSourceReader):  # type: ignore[misc]
    """Reads each range of an epoch as one partition, in order. Lost records are skipped, with a warning."""

    def __init__(
        self, options: Mapping[str, Any], types: Mapping[str, str], made: Mapping[str, Any] | None = None
    ) -> None:
        """Store `types`, the columns' types by name, in Spark's spelling; `made`: MADE_COLUMNS with Spark's types.

        The made columns come last, in that order. The last field of PARSED is null.
        """
        self._options = {k: str(v) for k, v in options.items()}
        self._types = types
        self._made = dict(made or {})

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges, without a request."""
        return [InputPartition(range_) for range_ in ranges_of(self._options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read a range, on an executor. Raises ChannelError, and the errors of `RangeInput`."""
        from fencepost.spark.partition.whereabouts import telling_where

        with telling_where(self._options[CHANNEL_OPTION], self._options[RUN_OPTION]):
            yield from self._read(partition)

    def _read(self, partition: InputPartition) -> Iterator[Any]:
        # imports Arrow and the channel's protocol: processes that plan or only write do without
        from fencepost.kafka.read.range_input import RangeInput
        from fencepost.kafka.wire.experience import NOT_LED

        reading = asked_reading(self._options[CHANNEL_OPTION], self._options[RUN_OPTION])
        makes_columns = not {MISFIT_REASON, PARSED}.isdisjoint(self._made)
        has_registry = makes_columns and REGISTRY_OPTION in self._options
        columns = arrow_columns(with_registry(self._types) if has_registry else self._types)
        topic, number = partition.value.place
        epoch, node = reading.led.get(topic, {}).get(str(number), NOT_LED)
        range_ = replace(partition.value, topic_id=reading.topic_ids.get(topic, ""), led=(epoch, node))
        read: Iterator[Any] = RangeInput(reading.conf, range_, columns=columns, fails_on_loss=False).batches()
        if not makes_columns:
            return read
        if has_registry:
            return self._with_registry(read, reading, topic)
        from fencepost.spark.row.json_columns import PayloadColumns
        from fencepost.spark.row.payloads import columns_in_option, with_payloads

        exact, parsed = None, None
        if MISFIT_REASON in self._made:
            option = self._options[PAYLOAD_OPTION]
            read = with_payloads(read, option, keeps_read=READ in self._made)
            exact = columns_in_option(option)
        if PARSED in self._made:
            parsed = {f.name: f.dataType.simpleString() for f in self._made[PARSED].fields}
        return map(PayloadColumns(exact, parsed).made, read)

    def _with_registry(self, read: Iterator[Any], reading: "EpochReading", topic: str) -> Iterator[Any]:
        from pyspark.sql.pandas.types import to_arrow_type

        from fencepost.spark.row.registry import ValueRegistry, of_option
        from fencepost.spark.row.registry_columns import RegistryColumns

        schema = of_option(self._options[REGISTRY_OPTION])[topic]
        registry = ValueRegistry(reading.registry or {}, schema.kind)
        type_ = to_arrow_type(self._made[PARSED], timezone="UTC")
        columns = RegistryColumns(schema, registry.by_key, type_, keeps_read=READ in self._made)
        return (columns.made(batch, self._types) for batch in read)
