"""`spark.read.format("fencepost")`."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from fencepost.config import ConfigError
from fencepost.kafka.value.position import LogRange
from fencepost.spark.kafka_read.options import KafkaReadConfig
from fencepost.spark.kafka_read.reading import QueryValues, read_range
from fencepost.spark.kafka_read.selection import Edge, everywhere
from fencepost.spark.kafka_read.source import KafkaSource, divide

log = logging.getLogger(__name__)
_OF_STREAMS = ("max_offsets_per_trigger", "min_offsets_per_trigger", "max_trigger_delay")


class KafkaBatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads ranges that are planned together with the query; later records are not read."""

    def __init__(self, config: KafkaReadConfig, types: Mapping[str, str], values: QueryValues | None = None) -> None:
        """Check the options that only a batch refuses; `types` are the columns' types by name. Raises ConfigError."""
        self._config = config
        self._types = types
        self._values = values
        for bound, edge, where in ((config.starting, Edge.LATEST, "begin"), (config.ending, Edge.EARLIEST, "end")):
            if bound is not None and (wrong := bound.says(edge)):
                raise ConfigError(
                    f"option {bound.option} is {edge.name.lower()} for {wrong[0]}: there a batch cannot {where}"
                )
        _check_order(config)
        for key in config.given(*_OF_STREAMS):
            log.warning("option %s is ignored: it is for streams", key)

    def partitions(self) -> list[InputPartition]:
        """Plan the ranges, on the driver. Raises ConfigError, DataLossError and the errors of `kafka`."""
        source = KafkaSource(self._config)
        try:
            ranges = self._planned(source)
        finally:
            source.close()
        return [
            InputPartition(each)
            for each in divide(ranges, self._config.min_partitions, self._config.max_records_per_partition)
        ]

    def read(self, partition: InputPartition | None) -> Iterator[Any]:
        """Read a range, on an executor. If none was planned, Spark passes None, and from 4.2 on a partition of None."""
        wanted = None if partition is None else partition.value
        return read_range(self._config, self._types, wanted, self._values)

    def _planned(self, source: KafkaSource) -> list[LogRange]:
        found = source.look_for_all()
        starts = source.resolved(self._config.starting or everywhere(Edge.EARLIEST), found.places, is_start=True)
        ends = source.resolved(self._config.ending, found.places, is_start=False)
        return source.ranges(found, starts, ends)


def _check_order(config: KafkaReadConfig) -> None:
    begin, end = (bound.offsets if bound else None for bound in (config.starting, config.ending))
    if config.starting is None or not isinstance(begin, Mapping) or not isinstance(end, Mapping):
        return
    for place, last in sorted(end.items()):
        if 0 <= last < begin.get(place, last):
            raise ConfigError(
                f"option {config.ending.option} is {last} for {place.topic}-{place.partition}, before "
                f"{config.starting.option}, which is {begin[place]}: nothing would be read"
            )
