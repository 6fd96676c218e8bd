"""The schema registry of a DataFrame connector or of a query: the schemas of its topics, and by id."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import orjson

from fencepost.api import Converter, RecordError, RetriableError
from fencepost.api.errors import LaggingError
from fencepost.config import ConfigError
from fencepost.config.connector import OUTPUT

if TYPE_CHECKING:
    from fencepost.builtin.converter.registry.client import WrittenSchema
    from fencepost.builtin.converter.registry.wire import SchemaKey

VALUE = "value"
"""The only column of values that are no records."""
_AVRO = "AVRO"


class ValueColumn(Protocol):
    """Decodes values of one writer's schema."""

    def decoded(self, values: Any, after: int) -> tuple[Any, Mapping[int, str]]:
        """Return the column of bytes without nulls, whose payload begins after so many, and what is wrong by number."""


@dataclass(frozen=True)
class ReaderSchema:
    """A schema of the registry. `id`: 0 if only its GUID is known. `kind`: AVRO, JSON or PROTOBUF.

    `references` are the names and texts of the schemas that it refers to, each after those that it refers to itself.
    `mapping`: the converter's settings for what the format and Connect's schemas have not in common.
    """

    id: int
    kind: str
    text: str
    references: Sequence[tuple[str, str]] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)

    def column(self, writer: "ReaderSchema") -> ValueColumn:
        """Return what reads a writer's values. Raises ValueError or RecordError if nothing can."""
        if writer.kind != self.kind:
            raise ValueError(f"it is {writer.kind}, not {self.kind}")
        if self.kind == _AVRO:
            from fencepost.builtin.converter.avro_column.resolution import AvroColumn

            return AvroColumn(_avro(writer), _avro(self))
        from fencepost.spark.row.connect_columns import ConnectColumn, connect_schema_of, reader_of

        reader = reader_of(*writer.written(), self.mapping)
        return ConnectColumn(reader, connect_schema_of(*self.written(), self.mapping))

    def arrow_type(self) -> Any:
        """Return the Arrow type of values. Raises ConfigError for a schema that has no columns."""
        try:
            if self.kind == _AVRO:
                from fencepost.builtin.converter.avro_column import kind

                return kind.arrow_type(_avro(self))
            from fencepost.record.schema import arrow_type
            from fencepost.spark.row.connect_columns import connect_schema_of

            return arrow_type(connect_schema_of(*self.written(), self.mapping))
        except (ValueError, RecordError) as error:
            raise ConfigError(f"the schema with id {self.id} has no columns: {error}") from error

    def columns(self) -> Any:
        """Return Spark's type of the struct of values. Values that are no records are its only field, VALUE."""
        from pyspark.sql import types as T  # noqa: N812
        from pyspark.sql.pandas.types import from_arrow_type

        kind = from_arrow_type(self.arrow_type())
        return kind if isinstance(kind, T.StructType) else T.StructType([T.StructField(VALUE, kind)])

    def written(self) -> "tuple[WrittenSchema, dict[str, WrittenSchema]]":
        """Return it, and what it refers to, as the client of the registry does."""
        from fencepost.builtin.converter.registry.client import WrittenSchema

        return WrittenSchema(self.kind, self.text), {n: WrittenSchema(self.kind, text) for n, text in self.references}


def common_columns(schemas: Mapping[str, ReaderSchema]) -> Any:
    """Return the columns of all topics' values, as Spark's type. Raises ConfigError if they differ."""
    from pyspark.sql import types as T  # noqa: N812

    first, *others = sorted(schemas)
    found = schemas[first].columns()
    for topic in others:
        columns = schemas[topic].columns()
        if columns != found:
            raise ConfigError(
                f"the schemas of topics {first} and {topic} have different columns: {found.simpleString()} and "
                f"{columns.simpleString()}. Set value.schema.subject to the subject whose columns all of them are to "
                "have, or read each of them by itself"
            )
    return T.StructType(list(found.fields))


def to_option(schemas: Mapping[str, ReaderSchema]) -> str:
    """Return schemas by topic as the text of an option."""
    return orjson.dumps({topic: asdict(schema) for topic, schema in schemas.items()}).decode()


def of_option(option: str) -> dict[str, ReaderSchema]:
    """Return the schemas in a text that `to_option` made."""
    return {topic: ReaderSchema(**fields) for topic, fields in orjson.loads(option).items()}


def _avro(schema: ReaderSchema) -> Any:
    from fencepost.builtin.converter.avro_column.kind import parsed

    return parsed(schema.text, [text for _, text in schema.references])


CONVERTERS = {"AvroConverter": "AVRO", "JsonSchemaConverter": "JSON", "ProtobufConverter": "PROTOBUF"}
"""The converters whose values have columns, and what the registry calls their schemas."""


def is_registry_converter(name: str) -> bool:
    """Return whether values of a converter, named by its class, have the schema of a registry."""
    return name.rpartition(".")[2] in CONVERTERS


CONVERTER = "value.converter"
_SETTINGS = f"{CONVERTER}."


def converter_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options by which executors convert values with schemas of a registry; none for other converters."""
    if not is_registry_converter(properties.get(CONVERTER) or ""):
        return {}
    return {key: value for key, value in properties.items() if key == CONVERTER or key.startswith(_SETTINGS)}


def registry_converter(options: Mapping[str, Any]) -> Converter:
    """Return the converter of such options, which writes values. Raises ConfigError, which names it."""
    from fencepost.plugin import PluginKind
    from fencepost.plugin.registry import PluginRegistry

    name = options[CONVERTER]
    settings = {key.removeprefix(_SETTINGS): value for key, value in options.items() if key.startswith(_SETTINGS)}
    try:
        made: Converter = PluginRegistry().find(PluginKind.CONVERTER, name)({**settings, "converter.type": "value"})
    except ConfigError as error:
        raise ConfigError([f"{CONVERTER}={name}: {message}" for message in error.messages]) from error
    return made


def output_converter(output: Mapping[str, str]) -> dict[str, str]:
    """Return these options for a stream's output. Raises ConfigError for wrong settings, under their full names."""
    found = converter_options(output)
    try:
        if found:
            registry_converter(found)
    except ConfigError as error:
        raise ConfigError([f"{OUTPUT}{message}" for message in error.messages]) from error
    return found


T = TypeVar("T")

_AGAIN_S = 0.5


def settled(ask: Callable[[], T]) -> T:
    """Return what a registry answers once it can no longer be behind: within seconds.

    The processes of executors are short-lived: a job that is repeated may meet one that asks for the first time,
    again and again. Raises what `ask` raises, other than LaggingError.
    """
    while True:
        try:
            return ask()
        except LaggingError:
            time.sleep(_AGAIN_S)


class ValueRegistry:
    """What a DataFrame asks its registry. For any process."""

    def __init__(self, settings: Mapping[str, Any], kind: str, subject: str | None = None) -> None:
        """`settings` are those of the converter, without a prefix. `subject`: of all topics; None: TOPIC-value.

        Raises ConfigError for wrong settings, and for libraries that are not installed.
        """
        from fencepost.builtin.converter.registry.client import Registry
        from fencepost.builtin.converter.registry.settings import RegistrySettings

        self._kind = kind
        self._mapping = _mapping(kind, settings)
        self._subject = subject
        self._registry = Registry.shared(RegistrySettings(dict(settings)), latest_ttl_s=0.0)

    def latest(self, topic: str) -> ReaderSchema:
        """Return the newest schema of a topic's values.

        Raises RetriableError if the registry is away or does not have it yet, FatalError if it refuses us, ConfigError
        if it is of another kind.
        """
        subject = self._subject or f"{topic}-value"
        try:
            key, written = settled(lambda: self._registry.latest(subject))
        except RecordError as error:
            raise RetriableError(
                f"{error}. The columns of topic {topic} are those of the newest schema of subject {subject}: register "
                "one, or set value.schema.subject to the subject with the columns"
            ) from error
        if written.type != self._kind:
            name = next(name for name, kind in CONVERTERS.items() if kind == self._kind)
            raise ConfigError(
                f"value.converter is {name}, but the newest schema of subject {subject} is {written.type}: use the "
                "converter of that"
            )
        return self._made(int(key.id or 0), written)

    def by_key(self, key: "SchemaKey") -> ReaderSchema:
        """Return a schema, by its id or its GUID. Raises RecordError if there is none, or else as `latest`."""
        return self._made(int(key.id or 0), settled(lambda: self._registry.schema(key)))

    def _made(self, id_: int, written: Any) -> ReaderSchema:
        referenced = settled(lambda: self._registry.referenced(written))
        references = tuple((name, each.text) for name, each in referenced.items())
        return ReaderSchema(id_, written.type, written.text, references, self._mapping)


def _mapping(kind: str, settings: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the settings that say how schemas of a format become columns; none of them is a secret."""
    if kind == "JSON":
        from fencepost.builtin.converter.registry.settings import JsonSchemaMapping

        return {key: str(settings[key]) for key in JsonSchemaMapping.settings() if key in settings}
    if kind == "PROTOBUF":
        from fencepost.builtin.converter.registry.protobuf.settings import ProtobufMapping

        return {key: str(settings[key]) for key in ProtobufMapping.settings() if key in settings}
    return {}
