"""The frame that a DataFrame sink gets for an epoch: records read by Spark, converted, and queried by
`transforms.sql`.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fencepost.api import Epoch, EpochConnector
from fencepost.api.dataframe import DataFrame, Session
from fencepost.config import ConfigError
from fencepost.config.connector import SinkChoice, SinkConnectorConfig
from fencepost.spark.epoch.dead_letters import LETTER_COLUMNS, LETTER_REASON, Tally
from fencepost.spark.epoch.read import options_of
from fencepost.spark.epoch.values import CORRUPT, EpochValues, TopicSchemas, values_of
from fencepost.spark.partition import FORMAT
from fencepost.spark.row.frame import BYTES, ConverterChoice, first_line, with_sql
from fencepost.spark.row.kafka_columns import MADE_COLUMNS, MISFIT_REASON, PARSED, READ, RECORD_COLUMNS, TEXT, written


def unknown_rows(session: Any, types: Mapping[str, str]) -> Any:
    """Return a frame with these columns, about whose rows the optimiser knows nothing. It cannot be read."""
    return session.createDataFrame(session.sparkContext.emptyRDD(), written(types))


def needed(frame: Any) -> set[str]:
    """Return the columns that a frame's rows depend on, by the names in its leaves.

    Raises any error of Spark or of the access to its plans; then the columns are not known.
    """
    plan = frame._jdf.queryExecution().optimizedPlan()
    nodes = list(_nodes(plan))
    used = [plan.outputSet(), *(node.references() for node in nodes)]
    leaves = [column for node in nodes if node.children().isEmpty() for column in _each(node.output())]
    return {str(column.name()) for column in leaves if any(each.contains(column) for each in used)}


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in _each(plan.children()):
        yield from _nodes(child)


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(i) for i in range(sequence.length()))


log = logging.getLogger(__name__)
_SQL, _SCHEMA = "transforms.sql", "value.schema"
_IS_CORRUPT = f"coalesce({CORRUPT} OR value.{CORRUPT} IS NOT NULL, false)"
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp")
_HEADERS = "headers"
_CHEAPEST = "partition"  # used where rows are only counted


class EpochFrames:
    """Makes the frames of a sink's epochs. One per task; driver side."""

    def __init__(self, sink: EpochConnector, properties: Mapping[str, str]) -> None:
        """Raise ConfigError for settings of `properties` that a DataFrame sink does not support."""
        if properties.get("transforms"):
            raise ConfigError(f"transforms does not apply to a DataFrame sink: remove it, and use {_SQL}")
        self._sink = sink
        self._query = sink.transforms_sql
        self._key = ConverterChoice.of(properties, "key.converter")
        self._value_kind, self._values = values_of(sink, properties)
        config = SinkConnectorConfig(properties)
        resend = SinkChoice.key_of("resend_topic")
        if properties.get(resend):
            raise ConfigError(
                f"{resend} does not apply to a DataFrame sink: remove it. `fencepost dead-letters --resend` sends "
                "dead letters to the topics that they came from"
            )
        self._tolerates_errors = config.errors_tolerance.lower() == "all"
        self._has_dead_letters = self._tolerates_errors and bool(config.dead_letters_topic)
        self._types = self._columns()
        self._needed: dict[tuple[bool, EpochValues | None], list[str]] = {}

    @property
    def registry_conf(self) -> Mapping[str, str] | None:
        """Return the settings with which executors ask the schema registry, if there is one (E11)."""
        return self._values.conf if isinstance(self._values, TopicSchemas) else None

    def planned_schemas(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the ids of the schemas in the registry that define the columns of these topics now.

        Raises RetriableError if the registry is away.
        """
        return self._values.newest(topics) if isinstance(self._values, TopicSchemas) else {}

    def frame(
        self,
        session: Session,
        epoch: Epoch,
        channel_url: str,
        run: str,
        tally: Tally | None = None,
        schemas: Mapping[str, int] | None = None,
    ) -> DataFrame:
        """Return the records of an epoch, lazily; row partition `n` holds range `n`, in the order of its offsets.

        Executors ask the worker about the run. `tally` counts the records that are left out; `schemas` are those that
        `planned_schemas` returned for the epoch. Raises ConfigError if the query does not fit the columns.
        """
        values = self._values_by(schemas)
        only = {name: self._types[name] for name in self._needed_of(session, epoch, values)}
        made = values.made() if values is not None and "value" in only else {}
        options = options_of(epoch, channel_url, run) | (values.options() if values is not None and made else {})
        return self._queried(session, _source(session, options, only, made), values, _topic(epoch), tally)

    @property
    def has_dead_letters(self) -> bool:
        """Return whether records may be left out that must become dead letters."""
        return self._has_dead_letters and self._values is not None

    @property
    def misfit(self) -> str:
        """Return what is wrong with a record that is left out; a reason may follow."""
        return "" if self._values is None else self._values.misfit

    def left_out(
        self,
        session: Session,
        epoch: Epoch,
        channel_url: str,
        run: str,
        schemas: Mapping[str, int] | None = None,
    ) -> DataFrame:
        """Return the records of an epoch that `frame` leaves out because their values do not fit, as they were read.

        Their columns are LETTER_COLUMNS and LETTER_REASON.
        """
        values = self._values_by(schemas)
        assert values is not None
        # In the type of `frame`, so that the same check applies; the bytes are the same.
        types = {name: values.kind if name == "value" else RECORD_COLUMNS[name] for name in LETTER_COLUMNS}
        made = values.made_of_letters()
        if made:
            made[READ] = T.BinaryType()
        read = _source(session, options_of(epoch, channel_url, run) | values.options(), types, made)
        if not made:
            read = read.withColumns({READ: F.col("value").cast("binary"), MISFIT_REASON: F.lit(None).cast("string")})
        found = self._parsed(read, values).where(_IS_CORRUPT)
        added = {"value": F.col(READ), "timestamp": F.unix_millis("timestamp"), LETTER_REASON: F.col(MISFIT_REASON)}
        return found.withColumns(added).select(*LETTER_COLUMNS, LETTER_REASON)

    def _values_by(self, schemas: Mapping[str, int] | None) -> EpochValues | None:
        found = self._values
        return found.of(schemas or {}) if isinstance(found, TopicSchemas) else found

    def _columns(self) -> dict[str, str]:
        """Return the types, by name, of the columns of `records` that a query can use, without the columns of
        values.
        """
        names = (*_COLUMNS, _HEADERS) if self._query is not None and _HEADERS in self._query.lower() else _COLUMNS
        kinds = {"key": RECORD_COLUMNS["key"] if self._key.kind == BYTES else TEXT, "value": self._value_kind}
        return {name: kinds.get(name, RECORD_COLUMNS[name]) for name in names}

    def _needed_of(self, session: Session, epoch: Epoch, values: EpochValues | None) -> list[str]:
        """Return the columns that the query needs. Making a column and sending it to Spark costs more than the rest."""
        topic = _topic(epoch)
        key = topic is None, values
        if key not in self._needed:
            frame = self._queried(session, unknown_rows(session, self._types), values, topic)
            try:
                found = needed(frame)
            except Exception as error:
                log.info("All columns are read, because it is unknown which are needed: %s", first_line(error))
                found = set(self._types)
            self._needed[key] = [name for name in self._types if name in found] or [_CHEAPEST]
        return self._needed[key]

    def _queried(
        self,
        session: Session,
        raw: DataFrame,
        values: EpochValues | None,
        topic: str | None,
        tally: Tally | None = None,
    ) -> DataFrame:
        """Return the frame for the sink; columns that `raw` does not have are null."""
        nulls = {name: F.lit(None).cast(kind) for name, kind in self._types.items() if name not in raw.columns}
        records = raw.withColumns(nulls).select(*self._types, *(name for name in MADE_COLUMNS if name in raw.columns))
        if values is None:
            return records.select("value") if self._query is None else _with_query(session, records, self._query)
        parsed = self._parsed(records, values)
        if tally is not None:
            parsed = tally.on(parsed, _IS_CORRUPT)
        parsed = self._without_corrupt(parsed, values, topic)
        if self._query is None:  # taken directly from the parsed struct: another struct would be built for nothing
            return parsed.select("value.*").drop(CORRUPT)
        own = F.col("value").dropFields(CORRUPT)
        return _with_query(session, parsed.withColumn("value", own), self._query)

    def _parsed(self, frame: DataFrame, values: EpochValues) -> DataFrame:
        """Make the struct `value`, which has additional hidden fields; a null stays null.

        `_IS_CORRUPT` is true for a value that does not fit the columns.
        """
        made, is_corrupt = values.value_of(frame)
        try:
            parsed = frame.select(
                *[c for c in frame.columns if c not in ("value", PARSED)],
                made.alias("value"),
                is_corrupt.alias(CORRUPT),
            )
            parsed.schema  # noqa: B018 - accessing the schema parses it
        except ParseException as error:
            raise ConfigError(
                f"Invalid value {self._sink.value_schema} for configuration {_SCHEMA}: it must name columns, as "
                f"`id INT, name STRING` ({first_line(error)})"
            ) from error
        return self._with_refused(parsed) if self._tolerates_errors and self._query is None else parsed

    def _with_refused(self, parsed: DataFrame) -> DataFrame:
        """Mark as corrupt the values that the sink cannot write."""
        names = [field.name for field in parsed.schema["value"].dataType.fields if field.name != CORRUPT]
        refused = self._sink.refused({name: "value.`" + name.replace("`", "``") + "`" for name in names})
        if refused is None:
            return parsed
        is_refused, reason = F.coalesce(F.expr(refused[0]), F.lit(False)), F.lit(refused[1])
        if MISFIT_REASON in parsed.columns:
            added = F.coalesce(F.col(MISFIT_REASON), F.when(is_refused, reason))
            parsed = parsed.withColumn(MISFIT_REASON, added)
        return parsed.withColumn(CORRUPT, F.col(CORRUPT) | is_refused)

    def _without_corrupt(self, frame: DataFrame, values: EpochValues, topic: str | None) -> DataFrame:
        """Leave out, or fail at, values that do not fit the columns. A constant `topic` is not read."""
        if self._tolerates_errors:
            return frame.where(f"NOT ({_IS_CORRUPT})").drop(CORRUPT, MISFIT_REASON)
        named = F.concat(F.lit(" ("), F.col(MISFIT_REASON), F.lit(")")) if MISFIT_REASON in frame.columns else F.lit("")
        reason = F.coalesce(named, F.lit(""))
        place = F.concat(
            F.col("topic") if topic is None else F.lit(topic), F.lit("-"), F.col("partition"),
            F.lit(" at offset "), F.col("offset"),
            F.lit(f": {values.misfit}"), reason, F.lit(f"; {values.advice}"),
        )  # fmt: skip
        checked = F.when(F.expr(_IS_CORRUPT), F.raise_error(place)).otherwise(F.col("value"))
        return frame.withColumn("value", checked).drop(CORRUPT, MISFIT_REASON)


def _source(
    session: Session, options: Mapping[str, str], types: Mapping[str, str], made: Mapping[str, T.DataType]
) -> DataFrame:
    """Return columns of an epoch's records, with these types, and the columns that executors make of their values."""
    schema = T.StructType.fromDDL(written(types))
    for name in (each for each in MADE_COLUMNS if each in made):
        schema = schema.add(name, made[name])
    return session.read.format(FORMAT).options(**options).schema(schema).load()


def _topic(epoch: Epoch) -> str | None:
    topics = {range_.topic for range_ in epoch.ranges}
    return topics.pop() if len(topics) == 1 else None


def _with_query(session: Session, records: DataFrame, query: str) -> DataFrame:
    return with_sql(session, records, query, ("records",))
