"""How the values of an epoch's records become columns: the port, and what the config chooses. Driver side.

JSON has the columns of `value.schema`. For values with schemas in a registry, the plan of an epoch names the schema by
which each topic is read, so that a repetition makes the same rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, ClassVar

from pyspark.errors import ParseException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fencepost.api import EpochConnector, RecordError, RetriableError
from fencepost.api.dataframe import DataFrame
from fencepost.builtin.converter.registry.wire import SchemaKey
from fencepost.config import ConfigError
from fencepost.spark.partition import PAYLOAD_OPTION, REGISTRY_OPTION
from fencepost.spark.row.exact_json import ExactColumns
from fencepost.spark.row.frame import BYTES, JSON, ConverterChoice
from fencepost.spark.row.kafka_columns import MISFIT_REASON, PARSED, PARSED_TYPES, RECORD_COLUMNS, TEXT
from fencepost.spark.row.payloads import payload_option
from fencepost.spark.row.registry import (
    CONVERTERS,
    ReaderSchema,
    ValueRegistry,
    common_columns,
    is_registry_converter,
    to_option,
)

CORRUPT = "_fencepost_corrupt"
"""The last field of the struct of a value, which is null unless Spark could not parse it; and a column of the frame."""


class EpochValues(ABC):
    """The columns of values. Driver side."""

    kind: ClassVar[str]
    """Spark's type of the column `value` as the executors read it."""
    misfit: ClassVar[str]
    """What is wrong with a value that does not fit; a reason may follow."""
    advice: ClassVar[str]
    """What a user may do about it."""

    @abstractmethod
    def made(self) -> dict[str, Any]:
        """Return those of MADE_COLUMNS, with Spark's types, that executors make of the values."""

    @abstractmethod
    def made_of_letters(self) -> dict[str, Any]:
        """Return those that are needed to find the values that do not fit."""

    @abstractmethod
    def options(self) -> dict[str, str]:
        """Return the options by which executors make them."""

    @abstractmethod
    def value_of(self, frame: DataFrame) -> tuple[Any, Any]:
        """Return the struct of a value, and whether there is more to say against it than its field CORRUPT says.

        The frame may lack what executors make, if it is never read.
        """


class JsonValues(EpochValues):
    """Values whose columns are those of `value.schema`; Arrow or Spark parses them."""

    kind = TEXT
    misfit = "the value is not JSON that fits value.schema"
    advice = "correct value.schema, or set errors.tolerance=all"

    def __init__(self, schema: str, choice: ConverterChoice) -> None:
        self._schema = schema
        self._choice = choice

    def made(self) -> dict[str, Any]:
        made = self.made_of_letters()
        if self._arrow_type is not None:
            made[PARSED] = self._arrow_type
        return made

    def made_of_letters(self) -> dict[str, Any]:
        return {MISFIT_REASON: T.StringType()} if self._has_reasons else {}

    def options(self) -> dict[str, str]:
        return {PAYLOAD_OPTION: self._payload_option} if self._has_reasons else {}

    def value_of(self, frame: DataFrame) -> tuple[Any, Any]:
        text = F.col("value")
        is_corrupt = text.isNotNull() & (F.trim(text) == "")  # Spark finds no fault in a blank text
        if MISFIT_REASON in frame.columns:
            is_corrupt |= F.col(MISFIT_REASON).isNotNull()
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        made = F.from_json("value", f"{self._schema}, {CORRUPT} STRING", options)
        return (F.coalesce(F.col(PARSED), made) if PARSED in frame.columns else made), is_corrupt

    @cached_property
    def _arrow_type(self) -> T.StructType | None:
        """Return the type of the struct that executors make of values; None if they may not make it."""
        return for_arrow(self._schema)

    @cached_property
    def _has_reasons(self) -> bool:
        """Return whether a value may not fit for a reason that Spark does not detect."""
        try:
            return self._choice.has_schemas or ExactColumns(_struct(self._schema)).is_needed
        except ParseException:  # the parser of the values sets the reason
            return False

    @cached_property
    def _payload_option(self) -> str:
        choice = self._choice
        return payload_option(
            _struct(self._schema), has_schemas=choice.has_schemas, is_null_replaced=choice.replaces_null
        )


def _struct(schema: str) -> T.StructType:
    """Return the type of these columns, in the syntax of `from_json`."""
    try:
        return T.StructType.fromDDL(schema)
    except ParseException:
        return T.DataType.fromDDL(f"struct<{schema}>")


def for_arrow(schema: str) -> T.StructType | None:
    """Return a struct of these columns and the corrupt column; None if Spark must read them."""
    try:
        fields = T.StructType.fromDDL(schema).fields
    except ParseException:  # from_json accepts another spelling of it
        return None
    if not {field.dataType.simpleString() for field in fields} <= PARSED_TYPES:
        return None
    made = T.StructType([*(T.StructField(f.name, f.dataType) for f in fields), T.StructField(CORRUPT, T.StringType())])
    return made if len(set(made.names)) == len(made) else None


class RegistryValues(EpochValues):
    """Values of topics, read by a schema of each."""

    kind = RECORD_COLUMNS["value"]
    misfit = "the value cannot be read by its schema in the registry"
    advice = "see to it that it can, or set errors.tolerance=all"

    def __init__(self, schemas: Mapping[str, ReaderSchema]) -> None:
        """Raise ConfigError if the topics do not have columns in common."""
        self._schemas = dict(schemas)
        self._type = common_columns(schemas).add(CORRUPT, T.StringType())

    def made(self) -> dict[str, Any]:
        return {MISFIT_REASON: T.StringType(), PARSED: self._type}

    def made_of_letters(self) -> dict[str, Any]:
        return self.made()

    def options(self) -> dict[str, str]:
        return {REGISTRY_OPTION: to_option(self._schemas)}

    def value_of(self, frame: DataFrame) -> tuple[Any, Any]:
        if PARSED not in frame.columns:  # whose rows are unknown; nor is it known how the struct depends on the bytes
            made = F.from_json(F.col("value").cast("string"), self._type)
            return made, F.lit(False)
        return F.col(PARSED), F.col(MISFIT_REASON).isNotNull()


class TopicSchemas:
    """The schemas of a connector's topics in the registry."""

    misfit = RegistryValues.misfit

    def __init__(self, conf: Mapping[str, str], kind: str, subject: str | None) -> None:
        """`conf`: the converter's settings, without prefix; `subject`: see ValueRegistry. Raises ConfigError."""
        self.conf = dict(conf)
        self._registry = ValueRegistry(conf, kind, subject)
        self._made: dict[tuple[tuple[str, int], ...], RegistryValues] = {}

    def newest(self, topics: Collection[str]) -> Mapping[str, int]:
        """Return the id of each topic's newest schema. Raises RetriableError if the registry is away."""
        return {topic: self._registry.latest(topic).id for topic in sorted(topics)}

    def of(self, ids: Mapping[str, int]) -> RegistryValues:
        """Return the columns of values by the schemas with these ids. Raises RetriableError as `newest`."""
        key = tuple(sorted(ids.items()))
        if key not in self._made:
            self._made.clear()  # the schemas of later epochs are newer
            try:
                self._made[key] = RegistryValues({topic: self._registry.by_key(SchemaKey(id_)) for topic, id_ in key})
            except RecordError as error:
                raise RetriableError(f"{error}. The epoch was planned with it: restore it in the registry") from error
        return self._made[key]


_CONVERTER = "value.converter"
_CONTENT = "value.converter.schema.content"
_SCHEMA, _SUBJECT = EpochConnector.key_of("value_schema"), EpochConnector.key_of("value_schema_subject")


def values_of(
    connector: EpochConnector, properties: Mapping[str, str]
) -> tuple[str, EpochValues | TopicSchemas | None]:
    """Return Spark's type of values as they are read, and what makes columns of them; None if nothing does.

    Raises ConfigError for settings that do not go together.
    """
    schema, name = connector.value_schema, properties.get(_CONVERTER) or ""
    if is_registry_converter(name):
        if schema is not None:
            raise ConfigError(
                f"{_SCHEMA} does not apply to values with schemas in a registry, which define the columns: remove it, "
                "and choose columns in transforms.sql"
            )
        return RegistryValues.kind, _schemas(properties, name, connector.value_schema_subject)
    if connector.value_schema_subject is not None:
        raise ConfigError(f"{_SUBJECT} applies only to values with schemas in a registry: remove it")
    choice = ConverterChoice.of(properties, _CONVERTER)
    if choice.kind == JSON and choice.has_schemas and properties.get(_CONTENT):
        raise ConfigError(
            f"{_CONTENT} does not apply to a DataFrame sink: remove it, set {_SCHEMA} to the columns of the values, "
            "and set value.converter.schemas.enable=false, since the values have no envelope"
        )
    if schema is None:
        if choice.kind == JSON and choice.has_schemas:
            raise ConfigError(
                f"{_SCHEMA} is missing: set it to the columns of values with schemas "
                "(value.converter.schemas.enable=true, the default), or set value.converter.schemas.enable=false for "
                "plain JSON"
            )
        return RECORD_COLUMNS["value"] if choice.kind == BYTES else TEXT, None
    if choice.kind != JSON:
        raise ConfigError(f"{_SCHEMA}: only values that {JSON} writes have columns; value.converter is {choice.kind}")
    return TEXT, JsonValues(schema, choice)


def _schemas(properties: Mapping[str, str], name: str, subject: str | None) -> TopicSchemas:
    prefix = f"{_CONVERTER}."
    own = {key[len(prefix) :]: value for key, value in properties.items() if key.startswith(prefix)}
    try:
        return TopicSchemas(own, CONVERTERS[name.rpartition(".")[2]], subject)
    except ConfigError as error:
        raise ConfigError([f"{_CONVERTER} ({name}): {message}" for message in error.messages]) from error
