"""The query of a SqlStream: its topics as tables, its rows as records. The same for a validation and for a task."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

from fencepost.api.dataframe import DataFrame, Session
from fencepost.builtin.connector.sql_stream import SqlStream
from fencepost.config import ConfigError
from fencepost.config.connector import OUTPUT, SinkConnectorConfig, output_properties
from fencepost.spark.partition import FORMAT
from fencepost.spark.query.failure import failure_of
from fencepost.spark.row.frame import BYTES, ConverterChoice, record_columns
from fencepost.spark.row.registry import converter_options, output_converter

_SQL, _KEY, _VALUE = SqlStream.key_of("sql"), "key.converter", "value.converter"
_KEY_FIELD = SqlStream.key_of("key_field")
_TOPICS, _REGEX = (SinkConnectorConfig.key_of(name) for name in ("topics", "topics_regex"))
_LETTERS = SinkConnectorConfig.key_of("dead_letters_topic")
_HEADERS = "headers"
_TABLE = "View"
# The nodes of an analysed query down to its tables; what runs commands or reads files and catalogs is not among them.
_ALLOWED = frozenset(
    {
        *("Aggregate", "CTERelationDef", "CTERelationRef", "Deduplicate", "DeduplicateWithinWatermark", "Distinct"),
        *("EventTimeWatermark", "Expand", "Filter", "Generate", "GlobalLimit", "Join", "LateralJoin", "LocalLimit"),
        *("LocalRelation", "OneRowRelation", "Project", "Range", "RebalancePartitions", "Repartition"),
        *("RepartitionByExpression", "ResolvedHint", "Sort", "SubqueryAlias", "Union", "Window", "WithCTE"),
    }
)


class QueryFrames:
    """Makes the frame of a query. `properties` are the connector's, with its effective converters."""

    def __init__(self, stream: SqlStream, properties: Mapping[str, str]) -> None:
        """Raise ConfigError for settings that such a query does not support."""
        config = SinkConnectorConfig(properties)
        for key, why in (
            ("transforms", f"it does not apply to a query: remove it, and use {_SQL}"),
            (_REGEX, f"each topic is a table of the query: name the topics in {_TOPICS}"),
            (_LETTERS, "a query writes no dead letters: remove it"),
        ):
            if properties.get(key):
                raise ConfigError(f"{key}: {why}")
        self.topics = list(dict.fromkeys(config.topics))
        self._stream = stream
        self._key = ConverterChoice.of(properties, _KEY)
        self._converter = converter_options(properties)
        self._value = None if self._converter else ConverterChoice.of(properties, _VALUE)
        output = output_properties(properties)
        self.converter = output_converter(output)
        """The options by which the sink converts values with schemas of a registry; none if Spark converts them."""
        self._written_value = None if self.converter else _output_choice(output, _VALUE)
        self._written_key = _output_choice(output, _KEY)

    def records(self, session: Session, reading: Mapping[str, str]) -> DataFrame:
        """Return the columns `value` and `key` of the query's rows. Nothing is read.

        `session` is used for this query only, as its views have the names of the topics; `reading` are the options of
        the brokers. Raises ConfigError if the query cannot be analysed, or does what a connector must not do.
        """
        query = self._stream.sql.strip().rstrip(";")
        try:
            for topic in self.topics:
                self._table(session, topic, reading).createOrReplaceTempView(_quoted(topic))
            rows = session.sql(f"SELECT * FROM (\n{query}\n)")  # a command is no subquery, and does not run
            used = set(_tables(rows._jdf.queryExecution().analyzed()))
            made = record_columns(
                rows.schema, self._written_value, self._written_key, self._stream.key_field, _KEY_FIELD
            )
            records = rows.select(*made)
            _check_streaming(session, records, self._stream.output_mode)
        except AnalysisException as error:
            raise failure_of(error) from error
        unused = [topic for topic in self.topics if topic not in used]
        if unused:
            raise ConfigError(f"{_TOPICS}: the query does not read {', '.join(unused)}: remove it, or use it in {_SQL}")
        return records

    def _table(self, session: Session, topic: str, reading: Mapping[str, str]) -> DataFrame:
        options = {
            **reading,
            **self._converter,
            "subscribe": topic,
            "startingOffsets": self._stream.starting(topic),
            "maxOffsetsPerTrigger": str(self._stream.batch_offsets_max),
            "includeHeaders": str(_HEADERS in self._stream.sql.lower()).lower(),
        }
        frame = session.readStream.format(FORMAT).options(**options).load()
        texts = [
            name for name, choice in (("key", self._key), ("value", self._value)) if choice and choice.kind != BYTES
        ]
        return frame.withColumns({name: F.col(name).cast("string") for name in texts})


_OF_THE_QUERY = ("auto.offset.reset", "enable.auto.commit", "isolation.level", "interceptor.classes")
_OF_TASKS = ("client", "transactional.id")  # the sink has one client, and one id for each query


def reading_options(properties: Mapping[str, object]) -> dict[str, str]:
    """Return the options of `readStream` for Java's properties of a consumer."""
    return _options(properties, (*_OF_THE_QUERY, "key.deserializer", "value.deserializer"))


def writing_options(properties: Mapping[str, object]) -> dict[str, str]:
    """Return the options of `writeStream` for Java's properties of a producer."""
    return _options(properties, (*_OF_TASKS, "interceptor.classes", "key.serializer", "value.serializer"))


def _options(properties: Mapping[str, object], left_out: Collection[str]) -> dict[str, str]:
    return {f"kafka.{key}": str(value) for key, value in properties.items() if key not in left_out}


def _output_choice(output: Mapping[str, str], key: str) -> ConverterChoice:
    try:
        return ConverterChoice.of(output, key)
    except ConfigError as error:
        raise ConfigError([f"{OUTPUT}{message}" for message in error.messages]) from error


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _tables(plan: Any) -> Iterator[str]:
    """Yield the topics that a plan reads. Raises ConfigError for a node that a query may not have."""
    name = str(plan.nodeName())
    if name == _TABLE and plan.isTempView():
        yield str(plan.desc().identifier().table())
        return
    if name not in _ALLOWED:
        raise ConfigError(
            f"{_SQL}: it may use the tables of its topics and constants; {name} is not possible: it would run a "
            "command, or read something else with the worker's rights"
        )
    for nodes in (plan.children(), plan.subqueries()):
        for n in range(nodes.length()):
            yield from _tables(nodes.apply(n))


def _check_streaming(session: Session, records: DataFrame, output_mode: str) -> None:
    """Raise Spark's AnalysisException for what a streaming query cannot do in this mode, as its start would."""
    if not records.isStreaming:
        raise ConfigError(f"{_SQL}: it reads none of the topics: use them as tables")
    jvm, mode = session._jvm, output_mode.capitalize()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    checker.checkForStreaming(
        records._jdf.queryExecution().analyzed(), getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode)()
    )
