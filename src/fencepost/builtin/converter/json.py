"""JsonConverter: values as JSON, alone or in an envelope with their schema."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import orjson

from fencepost.api import HIGH, LOW, RecordError, Schema, Type, at_least, one_of, setting
from fencepost.builtin.converter.any_place import AnyPlaceConverter
from fencepost.builtin.converter.compound import Encode
from fencepost.builtin.converter.json_encoding import (
    EncodeColumn,
    EncodingOptions,
    column_encoder,
    decimal_fallback,
    dumped_pieces,
    encode_schemaless,
    encoder,
    pieces_of,
)
from fencepost.builtin.converter.json_reading import JsonReader, given_schema, json_reader
from fencepost.builtin.converter.json_schema import schema_to_json
from fencepost.config import Width
from fencepost.config.check import Check
from fencepost.record import ArrowColumn, StructColumn, Utf8Column

NULL_SCHEMA = b'{"schema":null,"payload":'


class _Compiled(NamedTuple):
    """What a schema needs: the envelope up to the payload, and the encoders of one payload and of a column of them."""

    prefix: bytes
    encode: Encode
    encode_column: EncodeColumn


def _fault_of_schema(value: str | None) -> str | None:
    try:
        given_schema(value) if value else None
    except RecordError as error:
        return str(error)
    return None


class JsonConverter(AnyPlaceConverter):
    """Writes and reads JSON; with `schemas.enable`, as `{"schema":…,"payload":…}`.

    Text, numbers, logical types and defaults are written as Kafka's converter of that name does. A NaN or infinity
    without a schema becomes null, since JSON has none.
    """

    schemas_enable: bool = setting(
        "schemas.enable",
        default=True,
        importance=HIGH,
        group="Schemas",
        order=0,
        width=Width.MEDIUM,
        display_name="Enable Schemas",
        doc="Include schemas within each of the serialized values and keys.",
    )
    schemas_cache_size: int = setting(
        "schemas.cache.size",
        type=Type.INT,
        default=1000,
        check=at_least(1),
        importance=HIGH,
        group="Schemas",
        order=1,
        width=Width.MEDIUM,
        display_name="Schema Cache Size",
        doc="The maximum number of schemas that can be cached in this converter instance.",
    )
    schema_content: str | None = setting(
        "schema.content",
        default=None,
        check=Check(_fault_of_schema, "a schema in JSON"),
        importance=HIGH,
        group="Schemas",
        order=2,
        width=Width.MEDIUM,
        display_name="Schema Content",
        doc="With `schemas.enable`: the schema of all messages that are read, as in the `schema` of an envelope. "
        "The messages are then payloads without an envelope. Unset: each message has its schema. What is written "
        "does not change.",
    )
    decimal_format: str = setting(
        "decimal.format",
        default="BASE64",
        check=one_of("BASE64", "NUMERIC"),
        importance=LOW,
        group="Serialization",
        order=0,
        width=Width.MEDIUM,
        display_name="Decimal Format",
        doc="How decimals are written: BASE64 of their digits as bytes, or NUMERIC. Both are read.",
    )
    replace_null_with_default: bool = setting(
        "replace.null.with.default",
        default=True,
        importance=LOW,
        group="Serialization",
        order=1,
        width=Width.MEDIUM,
        display_name="Replace null with default",
        doc="Whether a null in a field with a default becomes that default.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._cached: Callable[[Schema], _Compiled] = lru_cache(self.schemas_cache_size)(self._compile)
        self._last: tuple[Schema | None, _Compiled] = (None, _Compiled(b"", lambda value: value, lambda column: column))

    @cached_property
    def _reader(self) -> JsonReader:
        return json_reader(
            has_schemas=self.schemas_enable,
            content=self.schema_content,
            cache_size=self.schemas_cache_size,
            is_null_replaced=self.replace_null_with_default,
        )

    @cached_property
    def _options(self) -> EncodingOptions:
        return EncodingOptions(self.decimal_format.upper() == "NUMERIC", self.replace_null_with_default)

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None:
            payload = None if value is None else _dumped(value)
            return payload if payload is None or not self.schemas_enable else NULL_SCHEMA + payload + b"}"
        try:
            compiled = self._compiled(schema)
            payload = _dumped(compiled.encode(value))
        except RecursionError:
            raise RecordError("Converting to JSON failed: the value or its schema is nested too deeply") from None
        return compiled.prefix + payload + b"}" if self.schemas_enable else payload

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        try:
            return self._reader.read(data)
        except (TypeError, RecursionError) as error:
            raise RecordError(f"Converting from JSON failed: {error}") from error

    def from_column(self, schema: Schema | None, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        if schema is None and any(value is None for value in values):
            return None
        try:
            prefix = NULL_SCHEMA if schema is None else self._compiled(schema).prefix
            if schema is None or isinstance(values, StructColumn | Utf8Column | ArrowColumn):
                payloads = pieces_of(schema, values, self._options)
            else:
                payloads = [self._compiled(schema).encode_column(values)]
            return dumped_pieces([prefix, *payloads, b"}"] if self.schemas_enable else payloads, len(values))
        except (RecordError, TypeError, RecursionError):
            return None

    def to_column(self, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        """Convert a column whose messages all carry the same schema, written in the same way, or none."""
        try:
            return self._reader.read_column(list(column))
        except (ValueError, TypeError, RecursionError, RecordError):
            return None

    def _compiled(self, schema: Schema) -> _Compiled:
        last, compiled = self._last
        if last is not schema:
            try:
                compiled = self._cached(schema)
            except TypeError:  # a default that cannot be hashed, such as a list
                compiled = self._compile(schema)
            self._last = (schema, compiled)
        return compiled

    def _compile(self, schema: Schema) -> _Compiled:
        try:
            written = orjson.dumps(schema_to_json(schema, self._options)) if self.schemas_enable else b""
        except TypeError as error:
            raise RecordError(f"Converting the schema to JSON failed: {error}") from error
        return _Compiled(
            b'{"schema":' + written + b',"payload":',
            encoder(schema, self._options),
            column_encoder(schema, self._options),
        )


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=decimal_fallback)
    except TypeError:
        try:
            return orjson.dumps(encode_schemaless(value), default=decimal_fallback)
        except (TypeError, ValueError, RecursionError) as error:
            raise RecordError(f"Converting to JSON failed: {error}") from error
