"""The frame that a DataFrame sink gets for an epoch: records read by Spark, converted, and queried by
`transforms.sql`.
"""

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
from fencepost.spark.epoch.dead_letters import LETTER_COLUMNS, LETTER_REASON, MISFIT, Tally
from fencepost.spark.epoch.pruning import needed, unknown_rows
from fencepost.spark.epoch.read import options_of
from fencepost.spark.partition.options import FORMAT, PAYLOAD_OPTION
from fencepost.spark.row.exact_json import ExactColumns
from fencepost.spark.row.frame import BYTES, JSON, ConverterChoice, with_sql
from fencepost.spark.row.kafka_columns import (
    MADE_COLUMNS,
    MISFIT_REASON,
    PARSED,
    PARSED_TYPES,
    READ,
    RECORD_COLUMNS,
    TEXT,
    written,
)
from fencepost.spark.row.payloads import payload_option

log = logging.getLogger(__name__)
_SQL, _SCHEMA = "transforms.sql", "value.schema"
_CORRUPT = "_fencepost_corrupt"
_IS_CORRUPT = f"coalesce({_CORRUPT} OR value.{_CORRUPT} IS NOT NULL, false)"
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
_HEADERS = "headers"
_CHEAPEST = "partition"  # used where rows are only counted


class EpochReader:
    """Makes the frames of a sink's epochs. One per task; driver side."""

    def __init__(self, sink: EpochConnector, properties: Mapping[str, str]) -> None:
        """Raise ConfigError for settings of `properties` that a DataFrame sink does not support."""
        if properties.get("transforms"):
            raise ConfigError(f"transforms does not apply to a DataFrame sink: remove it, and use {_SQL}")
        self._sink = sink
        self._query = sink.transforms_sql
        self._key = ConverterChoice.of(properties, "key.converter")
        self._value = ConverterChoice.of(properties, "value.converter")
        self._schema = sink.value_schema
        config = SinkConnectorConfig(properties)
        resend = SinkChoice.key_of("resend_topic")
        if properties.get(resend):
            raise ConfigError(
                f"{resend} does not apply to a DataFrame sink: remove it. `fencepost dead-letters --resend` sends "
                "dead letters to the topics that they came from"
            )
        self._tolerates_errors = config.errors_tolerance.lower() == "all"
        self._has_dead_letters = self._tolerates_errors and bool(config.dead_letters_topic)
        if self._schema is None and self._value.kind == JSON and self._value.has_schemas:
            raise ConfigError(
                f"{_SCHEMA} is missing: set it to the columns of values with schemas "
                "(value.converter.schemas.enable=true, the default), or set value.converter.schemas.enable=false for "
                "plain JSON"
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

        Executors ask the worker about the run. `tally` counts the records that are left out. Raises ConfigError if the
        query does not fit the columns.
        """
        only = {name: self._types[name] for name in self._needed_of(session, epoch)}
        made = self._made() if "value" in only else {}
        if self._arrow_type is not None and "value" in only:
            made[PARSED] = self._arrow_type
        read = self._source(session, options_of(epoch, channel_url, run), only, made)
        return self._queried(session, read, _topic(epoch), tally)

    @property
    def has_dead_letters(self) -> bool:
        """Return whether records may be left out that must become dead letters."""
        return self._has_dead_letters and self._schema is not None

    def left_out(self, session: Session, epoch: Epoch, channel_url: str, run: str) -> DataFrame:
        """Return the records of an epoch that `frame` leaves out because their values do not fit, as they were read.

        Their columns are LETTER_COLUMNS and LETTER_REASON.
        """
        assert self._schema is not None
        # As text, so that the same check applies as in `frame`; the bytes are the same.
        types = {name: TEXT if name == "value" else RECORD_COLUMNS[name] for name in LETTER_COLUMNS}
        made = self._made()
        if made:
            made[READ] = T.BinaryType()
        read = self._source(session, options_of(epoch, channel_url, run), types, made)
        if not made:
            read = read.withColumns({READ: F.col("value").cast("binary"), MISFIT_REASON: F.lit(None).cast("string")})
        found = self._parsed(read, self._schema).where(_IS_CORRUPT)
        added = {"value": F.col(READ), "timestamp": F.unix_millis("timestamp"), LETTER_REASON: F.col(MISFIT_REASON)}
        return found.withColumns(added).select(*LETTER_COLUMNS, LETTER_REASON)

    def _columns(self) -> dict[str, str]:
        """Return the types, by name, of the columns of `records` that a query can use, without the columns of
        values.
        """
        names = (*_COLUMNS, _HEADERS) if self._query is not None and _HEADERS in self._query.lower() else _COLUMNS
        texts = [name for name, its in (("key", self._key), ("value", self._value)) if its.kind != BYTES]
        return {name: TEXT if name in texts else RECORD_COLUMNS[name] for name in names}

    @cached_property
    def _arrow_type(self) -> T.StructType | None:
        """Return the type of the struct that executors make of values; None if they may not make it."""
        return None if self._schema is None else _for_arrow(self._schema)

    def _made(self) -> dict[str, T.DataType]:
        """Return the columns that executors make if a value may not fit for a reason that Spark does not detect."""
        return {MISFIT_REASON: T.StringType()} if self._has_reasons else {}

    @cached_property
    def _has_reasons(self) -> bool:
        if self._schema is None:
            return False
        try:
            return self._value.has_schemas or ExactColumns(_struct(self._schema)).is_needed
        except ParseException:  # the parser of the values sets the reason
            return False

    def _source(
        self, session: Session, options: dict[str, str], types: Mapping[str, str], made: Mapping[str, T.DataType]
    ) -> DataFrame:
        """Return columns of an epoch's records, with these types, and the columns that executors make of their
        values.
        """
        schema = T.StructType.fromDDL(written(types))
        for name in (each for each in MADE_COLUMNS if each in made):
            schema = schema.add(name, made[name])
        if MISFIT_REASON in made:
            options = {**options, PAYLOAD_OPTION: self._payload_option}
        return session.read.format(FORMAT).options(**options).schema(schema).load()

    @cached_property
    def _payload_option(self) -> str:
        assert self._schema is not None
        choice = self._value
        return payload_option(
            _struct(self._schema), has_schemas=choice.has_schemas, is_null_replaced=choice.replaces_null
        )

    def _needed_of(self, session: Session, epoch: Epoch) -> list[str]:
        """Return the columns that the query needs. Making a column and sending it to Spark costs more than the rest."""
        topic = _topic(epoch)
        if (topic is None) not in self._needed:
            frame = self._queried(session, unknown_rows(session, self._types), topic)
            try:
                found = needed(frame)
            except Exception as error:
                log.info("All columns are read, because it is unknown which are needed: %s", _first_line(error))
                found = set(self._types)
            self._needed[topic is None] = [name for name in self._types if name in found] or [_CHEAPEST]
        return self._needed[topic is None]

    def _queried(self, session: Session, raw: DataFrame, topic: str | None, tally: Tally | None = None) -> DataFrame:
        """Return the frame for the sink; columns that `raw` does not have are null."""
        nulls = {name: F.lit(None).cast(kind) for name, kind in self._types.items() if name not in raw.columns}
        records = raw.withColumns(nulls).select(*self._types, *(name for name in MADE_COLUMNS if name in raw.columns))
        if self._schema is None:
            return records.select("value") if self._query is None else _with_query(session, records, self._query)
        parsed = self._parsed(records, self._schema)
        if tally is not None:
            parsed = tally.on(parsed, _IS_CORRUPT)
        parsed = self._without_corrupt(parsed, topic)
        if self._query is None:  # taken directly from the parsed struct: another struct would be built for nothing
            return parsed.select("value.*").drop(_CORRUPT)
        own = F.col("value").dropFields(_CORRUPT)
        return _with_query(session, parsed.withColumn("value", own), self._query)

    def _parsed(self, frame: DataFrame, schema: str) -> DataFrame:
        """Parse the JSON text `value` into the struct `value`, which has additional hidden fields; a null stays null.

        `_IS_CORRUPT` is true for text that is not JSON or does not fit the columns.
        """
        text, columns = F.col("value"), f"{schema}, {_CORRUPT} STRING"
        is_corrupt = text.isNotNull() & (F.trim(text) == "")  # Spark finds no fault in a blank text
        if MISFIT_REASON in frame.columns:
            is_corrupt |= F.col(MISFIT_REASON).isNotNull()
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        made = F.from_json("value", columns, options)
        if PARSED in frame.columns:
            made = F.coalesce(F.col(PARSED), made)
        try:
            parsed = frame.select(
                *[c for c in frame.columns if c not in ("value", PARSED)],
                made.alias("value"),
                is_corrupt.alias(_CORRUPT),
            )
            parsed.schema  # noqa: B018 - accessing the schema parses it
        except ParseException as error:
            raise ConfigError(
                f"Invalid value {schema} for configuration {_SCHEMA}: it must name columns, as `id INT, name STRING` "
                f"({_first_line(error)})"
            ) from error
        return self._with_refused(parsed) if self._tolerates_errors and self._query is None else parsed

    def _with_refused(self, parsed: DataFrame) -> DataFrame:
        """Mark as corrupt the values that the sink cannot write."""
        names = [field.name for field in parsed.schema["value"].dataType.fields if field.name != _CORRUPT]
        refused = self._sink.refused({name: "value.`" + name.replace("`", "``") + "`" for name in names})
        if refused is None:
            return parsed
        is_refused, reason = F.coalesce(F.expr(refused[0]), F.lit(False)), F.lit(refused[1])
        if MISFIT_REASON in parsed.columns:
            added = F.coalesce(F.col(MISFIT_REASON), F.when(is_refused, reason))
            parsed = parsed.withColumn(MISFIT_REASON, added)
        return parsed.withColumn(_CORRUPT, F.col(_CORRUPT) | is_refused)

    def _without_corrupt(self, frame: DataFrame, topic: str | None) -> DataFrame:
        """Leave out, or fail at, values that are not JSON or do not fit the columns. A constant `topic` is not read."""
        if self._tolerates_errors:
            return frame.where(f"NOT ({_IS_CORRUPT})").drop(_CORRUPT, MISFIT_REASON)
        named = F.concat(F.lit(" ("), F.col(MISFIT_REASON), F.lit(")")) if MISFIT_REASON in frame.columns else F.lit("")
        reason = F.coalesce(named, F.lit(""))
        place = F.concat(
            F.col("topic") if topic is None else F.lit(topic), F.lit("-"), F.col("partition"),
            F.lit(" at offset "), F.col("offset"),
            F.lit(f": {MISFIT}"), reason, F.lit(f"; correct {_SCHEMA}, or set errors.tolerance=all"),
        )  # fmt: skip
        checked = F.when(F.expr(_IS_CORRUPT), F.raise_error(place)).otherwise(F.col("value"))
        return frame.withColumn("value", checked).drop(_CORRUPT, MISFIT_REASON)


def _struct(schema: str) -> T.StructType:
    """Return the type of these columns, in the syntax of `from_json`."""
    try:
        return T.StructType.fromDDL(schema)
    except ParseException:
        return T.DataType.fromDDL(f"struct<{schema}>")


def _for_arrow(schema: str) -> T.StructType | None:
    """Return a struct of these columns and the corrupt column; None if Spark must read them."""
    try:
        fields = T.StructType.fromDDL(schema).fields
    except ParseException:  # from_json accepts another spelling of it
        return None
    if not PARSED_TYPES.keys() >= {field.dataType.simpleString() for field in fields}:
        return None
    made = T.StructType([*(T.StructField(f.name, f.dataType) for f in fields), T.StructField(_CORRUPT, T.StringType())])
    return made if len(set(made.names)) == len(made) else None


def _topic(epoch: Epoch) -> str | None:
    """Return the topic of an epoch that has only one."""
    topics = {range_.topic for range_ in epoch.ranges}
    return topics.pop() if len(topics) == 1 else None


def _with_query(session: Session, records: DataFrame, query: str) -> DataFrame:
    return with_sql(session, records, query, ("records",))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
