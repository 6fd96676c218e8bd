"""Reads a range for a query, on an executor."""

from collections.abc import Iterator, Mapping
from typing import Any

from fencepost.kafka.value.log_range import LogRange
from fencepost.spark.kafka_read.options import KafkaReadConfig
from fencepost.spark.kafka_read.values import QueryValues
from fencepost.spark.row.kafka_columns import arrow_columns, with_registry


def read_range(
    config: KafkaReadConfig, types: Mapping[str, str], wanted: LogRange | None, values: QueryValues | None = None
) -> Iterator[Any]:
    """Return the Arrow batches of a range; none if it has no records. `values` makes columns of its values.

    Raises the errors of `RangeInput` and of `values`.
    """
    if wanted is None:
        return iter(())
    from fencepost.kafka.read.range_input import RangeInput  # imports Arrow, which the planning process does not need

    if "value" not in types:
        values = None  # there is nothing to make columns of
    as_read = types if values is None else with_registry(types)
    read = RangeInput(
        config.conf(),
        wanted,
        columns=arrow_columns(as_read),
        fails_on_loss=config.fails_on_loss,
        idle_s=config.idle_ms / 1000,
    ).batches()
    return read if values is None else values.read(read, wanted.place, list(types))
