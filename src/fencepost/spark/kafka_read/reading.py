"""Reads a range for a query, on an executor."""

from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.kafka.value.log_range import LogRange
from fencepost.spark.kafka_read.options import KafkaReadConfig
from fencepost.spark.row.kafka_columns import arrow_columns


def read_range(config: KafkaReadConfig, types: Mapping[str, str], wanted: LogRange | None) -> Iterator[Any]:
    """Return the Arrow batches of a range; none if it has no records. Raises the errors of `RangeInput`."""
    if wanted is None:
        return iter(())
    from fencepost.kafka.read.range_input import RangeInput  # imports Arrow, which the planning process does not need

    return RangeInput(
        config.conf(),
        wanted,
        columns=arrow_columns(types),
        fails_on_loss=config.fails_on_loss,
        idle_s=config.idle_ms / 1000,
    ).batches()
