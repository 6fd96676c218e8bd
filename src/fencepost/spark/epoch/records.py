"""The records that a DataFrame stream writes for an epoch: read ▸ `transforms.sql` ▸ key, value and topic. Driver
side.
"""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fencepost.api import DataFrameStream, Epoch
from fencepost.api.dataframe import DataFrame, Session
from fencepost.config import ConfigError
from fencepost.config.connector import output_properties
from fencepost.spark.epoch.frame import EpochFrames
from fencepost.spark.epoch.read import options_of
from fencepost.spark.partition import FORMAT
from fencepost.spark.row.frame import ConverterChoice, record_columns
from fencepost.spark.row.registry import output_converter

_VALUE = "value.converter"
_KEY_FIELD = DataFrameStream.key_of("key_field")


_SQL = DataFrameStream.key_of("transforms_sql")
_RELATIONS = ("DataSourceV2Relation", "DataSourceV2ScanRelation")


class EpochRecords:
    """Makes the records of a stream's epochs and writes them. One per task."""

    def __init__(self, stream: DataFrameStream, properties: Mapping[str, str]) -> None:
        """Raise ConfigError for settings of `properties` that a DataFrame stream does not support."""
        self._reader = EpochFrames(stream, properties)
        if self._reader.has_dead_letters:
            raise ConfigError(
                "errors.deadletterqueue.topic.name: a DataFrame stream writes no dead letters; remove it, or use a "
                "stream task"
            )
        output = output_properties(properties)
        self._registry = output_converter(output) or None
        self._value = None if self._registry is not None else ConverterChoice.of(output, _VALUE)
        self._key = ConverterChoice.of(output, "key.converter")
        self._topic, self._topic_field, self._key_field = stream.topic, stream.topic_field, stream.key_field

    @property
    def converter(self) -> Mapping[str, str] | None:
        """Return the options of the converter that executors write values with; None if Spark does.

        It has secrets, so executors ask for it (E11).
        """
        return self._registry

    @property
    def reader(self) -> EpochFrames:
        return self._reader

    def write(
        self, session: Session, epoch: Epoch, channel_url: str, run: str, schemas: Mapping[str, int] | None = None
    ) -> None:
        """Write the records of an epoch as one Spark job; they are committed when this returns.

        `schemas`: as `EpochFrames.planned_schemas` returned them for the epoch.
        """
        rows = self._reader.frame(session, epoch, channel_url, run, schemas=schemas)
        records = rows.select(*self._columns(rows))
        ensure_is_read(records)
        writer = records.write.format(FORMAT).mode("append")
        writer.options(**options_of(epoch, channel_url, run)).save()

    def _columns(self, rows: DataFrame) -> list[Any]:
        schema, field = rows.schema, self._topic_field
        if field is None:
            return self._record_columns(schema)
        if field not in schema.fieldNames():
            raise ConfigError(
                f"output.topic.field={field}: there is no such column; there are {', '.join(schema.fieldNames())}"
            )
        rest = T.StructType([each for each in schema.fields if each.name != field])
        topic = F.coalesce(rows[field].cast("string"), F.lit(self._topic)).alias("topic")
        return [*self._record_columns(rest), topic]

    def _record_columns(self, schema: T.StructType) -> list[Any]:
        return record_columns(schema, self._value, self._key, self._key_field, _KEY_FIELD)


def ensure_is_read(records: DataFrame) -> None:
    """Raise ConfigError if Spark would not read the ranges because it knows that the query returns no rows.

    It would run one task all the same, which would commit the first range.
    """
    leaves = records._jdf.queryExecution().optimizedPlan().collectLeaves()
    kinds = [str(leaves.apply(i).getClass().getSimpleName()) for i in range(leaves.length())]
    if len(kinds) != 1 or kinds[0] not in _RELATIONS:
        raise ConfigError(
            f"{_SQL} never returns rows: its condition can never be true. Nothing was read or committed; correct the "
            "query"
        )
