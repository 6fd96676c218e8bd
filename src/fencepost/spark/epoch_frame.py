"""What a DataFrame sink is given for an epoch: records that Spark reads, converted, as `transforms.sql` has them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import functions as F  # noqa: N812

from fencepost.api import DataFrameSink, Epoch
from fencepost.api.dataframe import DataFrame, Session
from fencepost.config import ConfigError
from fencepost.config.connector import DeadLetterConfig, SinkChoice, SinkConnectorConfig
from fencepost.spark.datasource import FencepostDataSource
from fencepost.spark.epoch_read import options_of
from fencepost.spark.frame import BYTES, JSON, ConverterChoice, with_sql

_SQL, _SCHEMA = "transforms.sql", "value.schema"
_CORRUPT, _PAYLOAD = "_fencepost_corrupt", "payload"
_COLUMNS = ("topic", "partition", "offset", "timestamp")
_HEADERS = "headers"


class EpochReader:
    """Makes the frames of a sink's epochs. One per task; driver side."""

    def __init__(self, sink: DataFrameSink, properties: Mapping[str, str]) -> None:
        """Raise ConfigError for settings of `properties` that a DataFrame sink cannot follow."""
        if properties.get("transforms"):
            raise ConfigError(f"transforms: a DataFrame sink transforms with {_SQL}; remove transforms")
        self._query = sink.transforms_sql
        self._key = ConverterChoice.of(properties, "key.converter")
        self._value = ConverterChoice.of(properties, "value.converter")
        self._schema = sink.value_schema
        config = SinkConnectorConfig(properties)
        for key in (DeadLetterConfig.key_of("dead_letters_topic"), SinkChoice.key_of("resend_topic")):
            if properties.get(key):
                raise ConfigError(
                    f"{key}: a DataFrame sink has no dead letters: a value that does not fit fails the task, or is "
                    "left out with errors.tolerance=all; remove it"
                )
        self._tolerates_errors = config.errors_tolerance.lower() == "all"
        if self._schema is None and self._value.kind == JSON and self._value.has_schemas:
            raise ConfigError(
                f"{_SCHEMA} is missing: values with schemas (value.converter.schemas.enable=true, the default) are "
                "read by their columns; or set value.converter.schemas.enable=false, if they are plain JSON"
            )
        if self._schema is not None and self._value.kind != JSON:
            raise ConfigError(
                f"{_SCHEMA}: only values that {JSON} writes have columns; value.converter is {self._value.kind}"
            )

    def frame(self, session: Session, epoch: Epoch, channel_url: str, run: str) -> DataFrame:
        """Return the records of an epoch, lazily; row partition `n` holds range `n`, in the order of its offsets.

        Executors ask the worker about the run. Raises ConfigError where the query does not fit.
        """
        has_headers = self._query is not None and _HEADERS in self._query.lower()
        options = options_of(epoch, channel_url, run, has_headers=has_headers)
        columns = (*_COLUMNS, _HEADERS) if has_headers else _COLUMNS
        raw = session.read.format(FencepostDataSource.name()).options(**options).load()
        records = self._converted(raw, columns)
        if self._query is not None:
            return with_sql(session, records, self._query, ("records",))
        return records.select("value.*" if self._schema is not None else "value")

    def _converted(self, raw: DataFrame, columns: Sequence[str]) -> DataFrame:
        key, value = _text(F.col("key"), self._key).alias("key"), _text(F.col("value"), self._value).alias("value")
        frame = raw.select(key, value, *columns)
        return frame if self._schema is None else self._with_columns(frame, self._schema)

    def _with_columns(self, frame: DataFrame, schema: str) -> DataFrame:
        """Make the struct `value` of the JSON text `value`; a null stays one."""
        text, columns = F.col("value"), f"{schema}, {_CORRUPT} STRING"
        is_corrupt = F.trim(text) == ""  # in which Spark sees nothing wrong, and no columns
        if self._value.has_schemas:
            is_corrupt |= ~F.coalesce(F.array_contains(F.json_object_keys(text), _PAYLOAD), F.lit(False))
            columns = f"{_PAYLOAD} STRUCT<{schema}>, {_CORRUPT} STRING"
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        try:
            parsed = frame.select(
                *[c for c in frame.columns if c != "value"],
                F.from_json("value", columns, options).alias("value"),
                (text.isNotNull() & is_corrupt).alias(_CORRUPT),
            )
            kind = parsed.schema["value"].dataType
        except ParseException as error:
            raise ConfigError(
                f"Invalid value {schema} for configuration {_SCHEMA}: it must name columns, as `id INT, name STRING` "
                f"({_first_line(error)})"
            ) from error
        checked = self._without_corrupt(parsed)
        if self._value.has_schemas:
            return checked.withColumn("value", F.col("value")[_PAYLOAD])
        kept = F.struct(*[F.col("value")[name].alias(name) for name in kind.fieldNames() if name != _CORRUPT])
        return checked.withColumn("value", F.when(F.col("value").isNotNull(), kept))

    def _without_corrupt(self, frame: DataFrame) -> DataFrame:
        """Leave out, or fail at, what is no JSON or does not fit the columns."""
        is_corrupt = F.coalesce(F.col(_CORRUPT) | F.col("value")[_CORRUPT].isNotNull(), F.lit(False))
        if self._tolerates_errors:
            return frame.where(~is_corrupt).drop(_CORRUPT)
        place = F.concat(
            F.col("topic"), F.lit("-"), F.col("partition"), F.lit(" at offset "), F.col("offset"),
            F.lit(f": the value is no JSON that fits {_SCHEMA}; mend {_SCHEMA}, or set errors.tolerance=all"),
        )  # fmt: skip
        checked = F.when(is_corrupt, F.raise_error(place)).otherwise(F.col("value"))
        return frame.withColumn("value", checked).drop(_CORRUPT)


def _text(raw: Any, choice: ConverterChoice) -> Any:
    """Return a key or value as bytes or, short of its columns, as the text that it is."""
    return raw if choice.kind == BYTES else raw.cast("string")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
