"""What a DataFrame sink is given for an epoch: records that Spark reads, converted, as `transforms.sql` has them."""

import logging
from collections.abc import Mapping
from functools import cached_property

from pyspark.errors import ParseException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fencepost.api import Epoch, EpochConnector
from fencepost.api.dataframe import DataFrame, Session
from fencepost.config import ConfigError
from fencepost.config.connector import SinkChoice, SinkConnectorConfig
from fencepost.spark.datasource import FencepostDataSource
from fencepost.spark.epoch_letters import LETTER_COLUMNS, MISFIT, Tally
from fencepost.spark.epoch_read import options_of
from fencepost.spark.frame import BYTES, JSON, ConverterChoice, with_sql
from fencepost.spark.kafka_read.columns import PARSED, PARSED_TYPES, RECORD_COLUMNS, TEXT, written
from fencepost.spark.pruning import needed, unknown_rows

log = logging.getLogger(__name__)
_SQL, _SCHEMA = "transforms.sql", "value.schema"
_CORRUPT, _PAYLOAD, _READ = "_fencepost_corrupt", "payload", "_fencepost_read"
_IS_CORRUPT = f"coalesce({_CORRUPT} OR value.{_CORRUPT} IS NOT NULL, false)"
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
_HEADERS = "headers"
_CHEAPEST = "partition"  # where rows are only counted


class EpochReader:
    """Makes the frames of a sink's epochs. One per task; driver side."""

    def __init__(self, sink: EpochConnector, properties: Mapping[str, str]) -> None:
        """Raise ConfigError for settings of `properties` that a DataFrame sink cannot follow."""
        if properties.get("transforms"):
            raise ConfigError(f"transforms: a DataFrame sink transforms with {_SQL}; remove transforms")
        self._query = sink.transforms_sql
        self._key = ConverterChoice.of(properties, "key.converter")
        self._value = ConverterChoice.of(properties, "value.converter")
        self._schema = sink.value_schema
        config = SinkConnectorConfig(properties)
        resend = SinkChoice.key_of("resend_topic")
        if properties.get(resend):
            raise ConfigError(
                f"{resend}: a DataFrame sink reads its own topics alone; remove it: `fencepost dead-letters --resend` "
                "sends letters to the topics that they came from"
            )
        self._tolerates_errors = config.errors_tolerance.lower() == "all"
        self._has_letters = self._tolerates_errors and bool(config.dead_letters_topic)
        if self._schema is None and self._value.kind == JSON and self._value.has_schemas:
            raise ConfigError(
                f"{_SCHEMA} is missing: values with schemas (value.converter.schemas.enable=true, the default) are "
                "read by their columns; or set value.converter.schemas.enable=false, if they are plain JSON"
            )
        if self._schema is not None and self._value.kind != JSON:
            raise ConfigError(
                f"{_SCHEMA}: only values that {JSON} writes have columns; value.converter is {self._value.kind}"
            )
        self._types = self._columns()
        self._needed: dict[bool, list[str]] = {}

    def frame(
        self, session: Session, epoch: Epoch, channel_url: str, run: str, tally: Tally | None = None
    ) -> DataFrame:
        """Return the records of an epoch, lazily; row partition `n` holds range `n`, in the order of its offsets.

        Executors ask the worker about the run. `tally` counts what is left out. Raises ConfigError where the query does
        not fit.
        """
        only = {name: self._types[name] for name in self._needed_of(session, epoch)}
        made = self._arrow_type if "value" in only else None
        return self._queried(session, _source(session, epoch, channel_url, run, only, made), _topic(epoch), tally)

    @property
    def has_letters(self) -> bool:
        """Say whether records may be left out that are to be dead letters."""
        return self._has_letters and self._schema is not None

    def left_out(self, session: Session, epoch: Epoch, channel_url: str, run: str) -> DataFrame:
        """Return the records of an epoch that `frame` leaves out since their values do not fit, as they were read.

        Their columns are LETTER_COLUMNS.
        """
        assert self._schema is not None
        # As text, so that it is judged as in `frame`: the bytes are the same.
        types = {name: TEXT if name == "value" else RECORD_COLUMNS[name] for name in LETTER_COLUMNS}
        read = _source(session, epoch, channel_url, run, types).withColumn(_READ, F.col("value").cast("binary"))
        found = self._parsed(read, self._schema).where(_IS_CORRUPT)
        told = {"value": F.col(_READ), "timestamp": F.unix_millis("timestamp")}
        return found.withColumns(told).select(*LETTER_COLUMNS)

    def _columns(self) -> dict[str, str]:
        """Return the types, by names, of what a query finds in `records`, short of the columns of values."""
        names = (*_COLUMNS, _HEADERS) if self._query is not None and _HEADERS in self._query.lower() else _COLUMNS
        texts = [name for name, its in (("key", self._key), ("value", self._value)) if its.kind != BYTES]
        return {name: TEXT if name in texts else RECORD_COLUMNS[name] for name in names}

    @cached_property
    def _arrow_type(self) -> T.StructType | None:
        """Return the type of the struct that executors make of values, if they may."""
        return None if self._schema is None or self._value.has_schemas else _for_arrow(self._schema)

    def _needed_of(self, session: Session, epoch: Epoch) -> list[str]:
        """Return the columns to read: what is made of them, and sent, for each row costs more than all the rest."""
        topic = _topic(epoch)
        if (topic is None) not in self._needed:
            frame = self._queried(session, unknown_rows(session, self._types), topic)
            try:
                found = needed(frame)
            except Exception as error:
                log.info("All columns are read: which are needed cannot be told: %s", _first_line(error))
                found = set(self._types)
            self._needed[topic is None] = [name for name in self._types if name in found] or [_CHEAPEST]
        return self._needed[topic is None]

    def _queried(self, session: Session, raw: DataFrame, topic: str | None, tally: Tally | None = None) -> DataFrame:
        """Return what the sink gets; columns that `raw` has not got are null."""
        nulls = {name: F.lit(None).cast(kind) for name, kind in self._types.items() if name not in raw.columns}
        parsed_columns = [PARSED] if PARSED in raw.columns else []
        records = raw.withColumns(nulls).select(*self._types, *parsed_columns)
        if self._schema is None:
            return records.select("value") if self._query is None else _with_query(session, records, self._query)
        parsed = self._parsed(records, self._schema)
        if tally is not None:
            parsed = tally.on(parsed, _IS_CORRUPT)
        parsed = self._without_corrupt(parsed, topic)
        if self._query is None:  # straight out of what was parsed: another struct would be made for nothing
            return parsed.select(f"value.{_PAYLOAD}.*" if self._value.has_schemas else "value.*").drop(_CORRUPT)
        value = F.col("value")
        own = value[_PAYLOAD] if self._value.has_schemas else value.dropFields(_CORRUPT)
        return _with_query(session, parsed.withColumn("value", own), self._query)

    def _parsed(self, frame: DataFrame, schema: str) -> DataFrame:
        """Make the struct `value` of the JSON text `value`, with more in it than there is to see; a null stays one.

        `_IS_CORRUPT` says where that is no JSON, or does not fit the columns.
        """
        text, columns = F.col("value"), f"{schema}, {_CORRUPT} STRING"
        is_corrupt = F.trim(text) == ""  # in which Spark sees nothing wrong, and no columns
        if self._value.has_schemas:
            is_corrupt |= ~F.coalesce(F.array_contains(F.json_object_keys(text), _PAYLOAD), F.lit(False))
            columns = f"{_PAYLOAD} STRUCT<{schema}>, {_CORRUPT} STRING"
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        made = F.from_json("value", columns, options)
        if PARSED in frame.columns:
            made = F.coalesce(F.col(PARSED), made)
        try:
            parsed = frame.select(
                *[c for c in frame.columns if c not in ("value", PARSED)],
                made.alias("value"),
                (text.isNotNull() & is_corrupt).alias(_CORRUPT),
            )
            parsed.schema  # noqa: B018 - it is parsed when it is asked for
        except ParseException as error:
            raise ConfigError(
                f"Invalid value {schema} for configuration {_SCHEMA}: it must name columns, as `id INT, name STRING` "
                f"({_first_line(error)})"
            ) from error
        return parsed

    def _without_corrupt(self, frame: DataFrame, topic: str | None) -> DataFrame:
        """Leave out, or fail at, what is no JSON or does not fit the columns. A `topic` that all have is not read."""
        if self._tolerates_errors:
            return frame.where(f"NOT ({_IS_CORRUPT})").drop(_CORRUPT)
        place = F.concat(
            F.col("topic") if topic is None else F.lit(topic), F.lit("-"), F.col("partition"),
            F.lit(" at offset "), F.col("offset"),
            F.lit(f": {MISFIT}; mend {_SCHEMA}, or set errors.tolerance=all"),
        )  # fmt: skip
        checked = F.when(F.expr(_IS_CORRUPT), F.raise_error(place)).otherwise(F.col("value"))
        return frame.withColumn("value", checked).drop(_CORRUPT)


def _source(
    session: Session,
    epoch: Epoch,
    channel_url: str,
    run: str,
    types: Mapping[str, str],
    made: T.StructType | None = None,
) -> DataFrame:
    """Return columns of the records of an epoch, whose types are these, and the structs `made` of their values."""
    source = session.read.format(FencepostDataSource.name()).options(**options_of(epoch, channel_url, run))
    schema = T.StructType.fromDDL(written(types))
    return source.schema(schema if made is None else schema.add(PARSED, made)).load()


def _for_arrow(schema: str) -> T.StructType | None:
    """Return a struct of these columns and the one of what is corrupt; None where Spark has to read them."""
    try:
        fields = T.StructType.fromDDL(schema).fields
    except ParseException:  # from_json knows another way to write it
        return None
    if not PARSED_TYPES.keys() >= {field.dataType.simpleString() for field in fields}:
        return None
    made = T.StructType([*(T.StructField(f.name, f.dataType) for f in fields), T.StructField(_CORRUPT, T.StringType())])
    return made if len(set(made.names)) == len(made) else None


def _topic(epoch: Epoch) -> str | None:
    """Return the topic of an epoch that has one only."""
    topics = {range_.topic for range_ in epoch.ranges}
    return topics.pop() if len(topics) == 1 else None


def _with_query(session: Session, records: DataFrame, query: str) -> DataFrame:
    return with_sql(session, records, query, ("records",))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
