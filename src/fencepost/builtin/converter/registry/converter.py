"""What the converters of all registry formats share: ids, subjects, caches, columns."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple

from fencepost.api import (
    ConfigError,
    ConnectError,
    Converter,
    FatalError,
    RecordError,
    Schema,
    SettingValue,
)
from fencepost.builtin.converter.registry.client import Cache, Registry, WrittenSchema
from fencepost.builtin.converter.registry.format import Format, Reader, Writer
from fencepost.builtin.converter.registry.settings import (
    HEADER_ID,
    IdPlace,
    RegistrySettings,
    SchemaUse,
    Strategy,
    strategy,
)
from fencepost.builtin.converter.registry.wire import (
    KEY_HEADER,
    PREFIX_SIZE,
    VALUE_HEADER,
    SchemaKey,
    common_id,
    framed,
    guid_header,
    prefix,
)
from fencepost.record import HeaderBytes

_UNVERSIONED_FOR_S = 10.0  # a schema may be none of its topic's subject for good: then it is asked for no oftener
_POSTPONED_FOR_S = 300.0  # and not while the registry is away: each question may take its timeout
_BOTH_HEADERS = frozenset({KEY_HEADER, VALUE_HEADER})
_CLIENT = ("confluent_kafka", "httpx2", "authlib", "cachetools", "attrs")


class Extra(NamedTuple):
    """An extra of Fencepost, and the modules that it installs in addition to the registry's client."""

    name: str
    modules: tuple[str, ...]

    def missing(self) -> str | None:
        """Return a text that says what to install if a module is missing. Imports none of them."""
        missing = []
        for name in (*_CLIENT, *self.modules):
            try:
                is_there = find_spec(name) is not None
            except ModuleNotFoundError:  # of its package
                is_there = False
            if not is_there:
                missing.append(name)
        if not missing:
            return None
        return (
            f"it needs Python modules that are not installed ({', '.join(missing)}): install the extra with "
            f"`pip install 'fencepost[{self.name}]'` on the worker and on all executors"
        )


class _Outgoing(NamedTuple):
    """A schema to write with: its place in the registry, and what writes values."""

    key: SchemaKey
    prefix: bytes
    writer: Writer


class RegistryConverter(Converter, RegistrySettings, SchemaUse, IdPlace, Format):
    """Converts values of a format whose schemas are in the registry. Belongs to one task.

    A registry that is away raises UnavailableError, so that the record is tried again and never skipped.
    """

    extra: ClassVar[Extra]
    type: ClassVar[str]
    """The format's name in the registry."""
    headers_read = _BOTH_HEADERS

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        missing = self.extra.missing()
        if missing is not None:
            raise ConfigError(f"{type(self).__name__} cannot be used: {missing}")
        super().__init__(properties)
        self._topic: str | None = None
        self._outgoing: Cache[_Outgoing] = Cache(self.schemas_cache_size, self._latest_ttl_s)
        self._readers: Cache[tuple[Reader, bool]] = Cache(self.schemas_cache_size)  # and whether it is final
        self._asked: Cache[bool] = Cache(self.schemas_cache_size, _UNVERSIONED_FOR_S)  # for versions, in vain
        self._of_topics: Cache[RegistryConverter] = Cache(self.schemas_cache_size)
        self._last: tuple[str, Schema | None, _Outgoing | None] = ("", None, None)

    @classmethod
    def validate_values(cls, properties: Mapping[str, object]) -> list[SettingValue]:
        values = super().validate_values(properties)
        missing = cls.extra.missing()
        if missing is None:
            return values
        key = cls.key_of("schema_registry_url")
        fault = f"Invalid value {cls.__name__}: {missing}"
        return [replace(v, errors=(*v.errors, fault)) if v.setting.key == key else v for v in values]

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if self._is_in_header:
            raise FatalError(f"{type(self).__name__} writes the id of the schema into a header, but there is no record")
        return self.from_connect_record(topic, [], schema, value)

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return self.to_connect_record(topic, (), data)

    def from_connect_record(
        self, topic: str, headers: list[HeaderBytes], schema: Schema | None, value: Any
    ) -> bytes | None:
        # A record that was read from another topic may still have the id of the schema that it was read with.
        headers[:] = [each for each in headers if each[0] != self._header]
        if value is None and (schema is None or schema.is_optional):
            return None
        if schema is None:
            raise RecordError(
                f"{type(self).__name__} needs a schema, but the {self._noun} has none: let the connector or a "
                "transform give it one, or use JsonConverter with schemas.enable=false"
            )
        found = self._outgoing_of(topic, schema)
        payload = found.writer.encode(value)
        if not self._is_in_header:
            return found.prefix + payload
        if found.key.guid is None:
            raise FatalError(
                f"The schema registry gives no GUID for the schema with {found.key}, which {self._noun}.schema.id."
                "serializer=HeaderSchemaIdSerializer needs: use PrefixSchemaIdSerializer with this registry"
            )
        headers.append((self._header, guid_header(found.key.guid, found.writer.lead)))
        return payload

    def to_connect_record(
        self, topic: str, headers: Sequence[HeaderBytes], data: bytes | None
    ) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        header = next((value for name, value in reversed(headers) if name == self._header), None)
        key, start, lead = framed(data, header)
        reader = self._reader(topic, key)
        return reader.read(lead + data if lead else data, start)

    def for_topic(self, topic: str) -> "RegistryConverter":
        def made() -> RegistryConverter:
            bound = copy(self)
            bound._topic = topic
            return bound

        return self._of_topics.get_or(topic, made)

    def from_column(self, schema: Schema | None, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        if self._topic is None or schema is None or self._is_in_header:
            return None
        try:
            found = self._outgoing_of(self._topic, schema)
            values = list(values)
            present = [value for value in values if value is not None] if schema.is_optional else values
            written = found.writer.encode_all(present, found.prefix)
        except ConnectError:
            return None
        if len(present) == len(values):
            return written
        each = iter(written)
        return [None if value is None else next(each) for value in values]

    def to_column(self, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        if self._topic is None:
            return None
        data = list(column)
        if any(each is None for each in data):
            return (None, data) if all(each is None for each in data) else None
        found = common_id(data)  # type: ignore[arg-type]
        if found is None:
            return None
        return self._reader(self._topic, SchemaKey(found)).read_all(data, PREFIX_SIZE)  # type: ignore[arg-type]

    @cached_property
    def _is_key(self) -> bool:
        return str(self.originals.get("converter.type")) == "key"

    @cached_property
    def _registry(self) -> Registry:
        return Registry.shared(self, size=self.schemas_cache_size, latest_ttl_s=self._latest_ttl_s)

    @cached_property
    def _latest_ttl_s(self) -> float | None:
        """Return after how many seconds to look for a newer version; None if another one is never written with."""
        uses_latest = self.use_latest_version and not self.auto_register_schemas
        return float(self.latest_cache_ttl_sec) if uses_latest and self.latest_cache_ttl_sec >= 0 else None

    @cached_property
    def _strategy(self) -> Strategy:
        return strategy(self.key_subject_name_strategy if self._is_key else self.value_subject_name_strategy)

    @property
    def _noun(self) -> str:
        return "key" if self._is_key else "value"

    @property
    def _header(self) -> str:
        return KEY_HEADER if self._is_key else VALUE_HEADER

    @property
    def _is_in_header(self) -> bool:
        return (self.key_schema_id_serializer if self._is_key else self.value_schema_id_serializer) == HEADER_ID

    def _outgoing_of(self, topic: str, schema: Schema) -> _Outgoing:
        last_topic, last_schema, last = self._last
        if last is not None and last_schema is schema and last_topic == topic:
            return last
        try:
            found = self._outgoing.get_or((topic, schema), lambda: self._made(topic, schema))
        except TypeError:  # a default that cannot be hashed, such as a list
            found = self._outgoing.get_or((topic, repr(schema)), lambda: self._made(topic, schema))
        if self._latest_ttl_s is None:
            self._last = (topic, schema, found)
        return found

    def _made(self, topic: str, schema: Schema) -> _Outgoing:
        written = self.written(schema)
        subject = self._strategy(topic, self._is_key, written.name)
        if self.auto_register_schemas:
            key = self._registry.register(subject, written.schema, normalize=self.normalize_schemas)
        elif not self.use_latest_version:
            key = self._registry.look_up(subject, written.schema, normalize=self.normalize_schemas)
        else:
            key, latest = self._registry.latest(subject)
            self._check_type(latest, f"The newest schema of subject {subject}")
            referenced = self._registry.referenced(latest)
            writer = self.rewritten(latest, referenced, written, is_strict=self.latest_compatibility_strict)
            return _Outgoing(key, prefix(key.id or 0) + writer.lead, writer)
        return _Outgoing(key, prefix(key.id or 0) + written.writer.lead, written.writer)

    def _reader(self, topic: str, key: SchemaKey) -> Reader:
        last, is_final = self._readers.get((topic, key)) or (None, False)
        if last is not None and (is_final or self._asked.get((topic, key)) or self._asked.get(None)):
            return last
        try:
            return self._new_reader(topic, key)
        except ConnectError:
            if last is None:
                raise
            self._asked.put(None, True, _POSTPONED_FOR_S)  # all that the reader lacks is the version of its schema
            return last

    def _new_reader(self, topic: str, key: SchemaKey) -> Reader:
        schema = self._registry.schema(key)
        self._check_type(schema, f"The schema with {key}")
        referenced = self._registry.referenced(schema)
        try:
            subject = self._strategy(topic, self._is_key, self.name_of(schema, referenced))
        except RecordError:  # a schema without a name
            subject = None
        version = None if subject is None else self._registry.version(subject, schema)
        is_final = subject is None or version is not None  # the registry may only lag
        reader = self.reader(schema, referenced, version)
        self._readers.put((topic, key), (reader, is_final))
        if not is_final:
            self._asked.put((topic, key), True)
        return reader

    def _check_type(self, schema: WrittenSchema, what: str) -> None:
        if schema.type != self.type:
            raise RecordError(
                f"{what} is of the type {schema.type}, but {type(self).__name__} reads and writes {self.type}: use the "
                "converter of that type"
            )
