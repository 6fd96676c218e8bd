"""JsonConverter: values as JSON, alone or in an envelope with their schema."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from fencepost.api import HIGH, LOW, Converter, HeaderConverter, RecordError, Schema, Type, at_least, one_of, setting
from fencepost.config import Width
from fencepost.converter.json_column import dumped_all, is_plain
from fencepost.converter.json_decoding import decode
from fencepost.converter.json_encoding import (
    Encode,
    EncodingOptions,
    decimal_fallback,
    encode_schemaless,
    encoder,
)
from fencepost.converter.json_parsing import exact_decimal, parsed
from fencepost.converter.json_schema import schema_from_json, schema_to_json
from fencepost.converter.json_structs import dumped_structs
from fencepost.record import Repeated, SchemaType, StructColumn, Utf8Column
from fencepost.record.schema import DECIMAL_NAME

ENVELOPE = {"schema", "payload"}
NULL_SCHEMA = b'{"schema":null,"payload":'


class _Compiled(NamedTuple):
    """What a schema needs: the envelope up to the payload, and the payload's encoder."""

    prefix: bytes
    encode: Encode


class JsonConverter(Converter, HeaderConverter):
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
        self._options = EncodingOptions(self.decimal_format.upper() == "NUMERIC", self.replace_null_with_default)
        self._cached: Callable[[Schema], _Compiled] = lru_cache(self.schemas_cache_size)(self._compile)
        self._last: tuple[Schema | None, _Compiled] = (None, _Compiled(b"", lambda value: value))
        self._schema_of: Callable[[bytes], Schema | None] = lru_cache(self.schemas_cache_size)(_schema_of)

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None:
            return None if value is None else self._schemaless(value)
        compiled = self._compiled(schema)
        payload = _dumped(compiled.encode(value))
        return compiled.prefix + payload + b"}" if self.schemas_enable else payload

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        value = _parsed(data)
        if not self.schemas_enable:
            return None, value
        try:
            return self._of_envelope(value)
        except (TypeError, RecursionError) as error:
            raise RecordError(f"Converting from JSON failed: {error}") from error

    def _of_envelope(self, value: Any) -> tuple[Schema | None, Any]:
        """Raise TypeError for a schema with a text or number that JSON cannot hold."""
        if not isinstance(value, dict) or value.keys() != ENVELOPE:
            raise RecordError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
                "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your "
                "converter configuration."
            )
        schema = self._schema_of(orjson.dumps(value["schema"], default=decimal_fallback))
        return schema, decode(schema, value["payload"], is_null_replaced=self.replace_null_with_default)

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return self.to_connect_data(topic, data)

    def from_column(self, schema: Schema | None, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        if isinstance(values, Repeated):
            once = self.from_column(schema, [values.value])
            return None if once is None else Repeated(once[0], len(values))
        if schema is None:
            prefix = NULL_SCHEMA
            if any(value is None for value in values):
                return None
        else:
            prefix = self._compiled(schema).prefix
        try:
            if isinstance(values, StructColumn):
                around = (prefix, b"}") if self.schemas_enable else (b"", b"")
                return dumped_structs(schema, values, self._options, *around)
            payloads = values if schema is None else self._payloads(schema, values)
            return dumped_all(payloads, prefix, b"}") if self.schemas_enable else dumped_all(payloads)
        except (RecordError, TypeError):
            return None

    def _payloads(self, schema: Schema, values: Sequence[Any]) -> Sequence[Any]:
        if isinstance(values, Utf8Column) and schema.type is SchemaType.STRING:
            return values.texts()
        if is_plain(schema, values):
            return values
        encode = self._compiled(schema).encode
        return [encode(value) for value in values]

    def _schemaless(self, value: Any) -> bytes:
        payload = _dumped(value)
        return NULL_SCHEMA + payload + b"}" if self.schemas_enable else payload

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
        written = orjson.dumps(schema_to_json(schema, self._options))
        return _Compiled(b'{"schema":' + written + b',"payload":', encoder(schema, self._options))


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=decimal_fallback)
    except TypeError:
        try:
            return orjson.dumps(encode_schemaless(value), default=decimal_fallback)
        except (TypeError, ValueError, RecursionError) as error:
            raise RecordError(f"Converting to JSON failed: {error}") from error


def _parsed(data: bytes) -> Any:
    try:
        if DECIMAL_NAME.encode() in data:
            return json.loads(data, parse_float=exact_decimal)
        return parsed(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"Converting bytes from JSON failed due to serialization error: {error}") from error


def _schema_of(written: bytes) -> Schema | None:
    return schema_from_json(orjson.loads(written))
