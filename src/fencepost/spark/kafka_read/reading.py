"""Reads a range for a query, on an executor, with columns of its values if a registry has the schema of their topic."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fencepost.api import RecordError
from fencepost.kafka.value.position import LogRange
from fencepost.record import TopicPartition
from fencepost.spark.kafka_read.options import KafkaReadConfig
from fencepost.spark.row.kafka_columns import arrow_columns, with_registry
from fencepost.spark.row.registry import CONVERTERS, ReaderSchema, ValueRegistry, common_columns


@dataclass(frozen=True)
class QueryValues:
    """The schemas that were the newest of their topics when the query was analysed, and how to ask for others."""

    schemas: Mapping[str, ReaderSchema]
    conf: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, converter: str, conf: Mapping[str, str], subject: str | None, topics: Iterable[str]) -> "QueryValues":
        """Ask the registry. Raises ConfigError, and RetriableError if it is away."""
        registry = ValueRegistry(conf, CONVERTERS[converter.rpartition(".")[2]], subject)
        return cls({topic: registry.latest(topic) for topic in topics}, conf)

    def columns(self) -> Any:
        """Return Spark's type of the column `value`. Raises ConfigError if topics differ."""
        return common_columns(self.schemas)

    def read(self, batches: Iterator[Any], place: TopicPartition, names: list[str]) -> Iterator[Any]:
        """Return batches of columns with these names; `batches` have values as bytes, offsets and headers.

        Raises RecordError for a value that cannot be read.
        """
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_type

        from fencepost.spark.row.registry_columns import RegistryColumns

        # A topic that is new to the query has the columns of the others, or it cannot be read.
        schema = self.schemas.get(place.topic) or next(iter(self.schemas.values()))
        registry = ValueRegistry(self.conf, schema.kind)
        columns = RegistryColumns(schema, registry.by_key, to_arrow_type(schema.columns(), timezone="UTC"))
        for batch in batches:
            made, reasons = columns.structs(batch["value"], batch["headers"])
            if reasons.null_count < len(reasons):
                _refuse(place, batch["offset"].to_pylist(), reasons.to_pylist())
            arrays = [made if name == "value" else batch[name] for name in names]
            yield pa.RecordBatch.from_arrays(arrays, names=names)


def _refuse(place: TopicPartition, offsets: list[int], reasons: list[str | None]) -> None:
    offset, reason = next((at, why) for at, why in zip(offsets, reasons, strict=True) if why is not None)
    raise RecordError(
        f"{place.topic}-{place.partition} at offset {offset}: the value cannot be read by its schema in the registry "
        f"({reason}). Read values as bytes, without value.converter, to find out what they are"
    )


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
