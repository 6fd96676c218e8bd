"""The schema registry of a DataFrame connector or of a query: the schemas of its topics, and by id."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost.api import Converter, RecordError, RetriableError
from fencepost.api.errors import LaggingError
from fencepost.config import ConfigError
from fencepost.spark.row.registry_schema import ReaderSchema

if TYPE_CHECKING:
    from fencepost.builtin.converter.registry.wire import SchemaKey

CONVERTERS = {"AvroConverter": "AVRO", "JsonSchemaConverter": "JSON", "ProtobufConverter": "PROTOBUF"}
"""The converters whose values have columns, and what the registry calls their schemas."""


def is_registry_converter(name: str) -> bool:
    """Return whether values of a converter, named by its class, have the schema of a registry."""
    return name.rpartition(".")[2] in CONVERTERS


CLASS = "class"
"""The key of the converter's class among its settings for executors."""


def registry_converter(name: str, settings: Mapping[str, Any]) -> Converter:
    """Return the converter of a class, which writes values. Raises ConfigError for wrong settings."""
    from fencepost.plugin import PluginKind
    from fencepost.plugin.registry import PluginRegistry

    cls = PluginRegistry().find(PluginKind.CONVERTER, name)
    made: Converter = cls({**settings, "converter.type": "value"})
    return made


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
        from fencepost.builtin.converter.registry.json_schema.settings import JsonSchemaMapping

        return {key: str(settings[key]) for key in JsonSchemaMapping.settings() if key in settings}
    if kind == "PROTOBUF":
        from fencepost.builtin.converter.registry.protobuf.settings import ProtobufMapping

        return {key: str(settings[key]) for key in ProtobufMapping.settings() if key in settings}
    return {}
