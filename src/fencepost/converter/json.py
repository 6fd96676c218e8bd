"""JsonConverter: values as JSON, alone or in an envelope with their schema."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import orjson

from fencepost.api import HIGH, LOW, Converter, HeaderConverter, RecordError, Schema, Type, at_least, one_of, setting
from fencepost.config import Width
from fencepost.converter.compound import Encode
from fencepost.converter.json_column import EncodeColumn, column_encoder, dumped_all
from fencepost.converter.json_column_decoding import DecodeColumn, column_decoder
from fencepost.converter.json_decoding import decode
from fencepost.converter.json_encoding import (
    EncodingOptions,
    decimal_fallback,
    encode_schemaless,
    encoder,
)
from fencepost.converter.json_envelopes import parsed_all, payloads, prefix_of
from fencepost.converter.json_parsing import parsed, parsed_with_decimals
from fencepost.converter.json_schema import schema_from_json, schema_to_json
from fencepost.converter.json_structs import dumped_structs
from fencepost.record import Repeated, SchemaType, StructColumn, Utf8Column
from fencepost.record.schema import DECIMAL_NAME

ENVELOPE = {"schema", "payload"}
_DECIMAL_NAME = DECIMAL_NAME.encode()
NULL_SCHEMA = b'{"schema":null,"payload":'


class _Compiled(NamedTuple):
    """What a schema needs: the envelope up to the payload, and the encoders of one payload and of a column of them."""

    prefix: bytes
    encode: Encode
    encode_column: EncodeColumn


class _Read(NamedTuple):
    """What messages with a schema need: their text up to the payload, the schema, and the decoder of payloads."""

    prefix: bytes
    schema: Schema | None
    decode_column: DecodeColumn


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
        self._cached: Callable[[Schema], _Compiled] = lru_cache(self.schemas_cache_size)(self._compile)
        self._last: tuple[Schema | None, _Compiled] = (None, _Compiled(b"", lambda value: value, lambda column: column))
        self._last_read: _Read | None = None
        self._schema_of: Callable[[bytes], Schema | None] = lru_cache(self.schemas_cache_size)(_schema_of)

    @cached_property
    def _options(self) -> EncodingOptions:
        return EncodingOptions(self.decimal_format.upper() == "NUMERIC", self.replace_null_with_default)

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is None:
            return None if value is None else self._schemaless(value)
        try:
            compiled = self._compiled(schema)
            payload = _dumped(compiled.encode(value))
        except RecursionError:
            raise RecordError("Converting to JSON failed: the value or its schema is nested too deeply") from None
        return compiled.prefix + payload + b"}" if self.schemas_enable else payload

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        if not self.schemas_enable:
            return None, _parsed(data)
        try:
            return self._of_envelope(data)
        except (TypeError, RecursionError) as error:
            raise RecordError(f"Converting from JSON failed: {error}") from error

    def _of_envelope(self, data: bytes) -> tuple[Schema | None, Any]:
        """Raise TypeError for a schema with a text or number that JSON cannot hold."""
        value = _parsed(data, keeps_digits=_DECIMAL_NAME in data)
        if not isinstance(value, dict) or value.keys() != ENVELOPE:
            raise RecordError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
                "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your "
                "converter configuration."
            )
        schema = self._schema_of(orjson.dumps(value["schema"], default=decimal_fallback))
        if schema is None and _DECIMAL_NAME in data:
            return None, _parsed(data)["payload"]
        return schema, decode(schema, value["payload"], is_null_replaced=self.replace_null_with_default)

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return self.to_connect_data(topic, data)

    def from_column(self, schema: Schema | None, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        if isinstance(values, Repeated):
            once = self.from_column(schema, [values.value])
            return None if once is None else Repeated(once[0], len(values))
        if schema is None and any(value is None for value in values):
            return None
        try:
            prefix = NULL_SCHEMA if schema is None else self._compiled(schema).prefix
            if isinstance(values, StructColumn):
                around = (prefix, b"}") if self.schemas_enable else (b"", b"")
                return dumped_structs(schema, values, self._options, *around)
            encoded = values if schema is None else self._payloads(schema, values)
            return dumped_all(encoded, prefix, b"}") if self.schemas_enable else dumped_all(encoded)
        except (RecordError, TypeError, RecursionError):
            return None

    def to_column(self, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        """Convert a column whose messages all carry the same schema, written in the same way, or none."""
        try:
            return self._envelopes(column) if self.schemas_enable else self._schemaless_column(column)
        except (ValueError, TypeError, RecursionError, RecordError):
            return None

    def _envelopes(self, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        messages = list(column)
        first = next(filter(None, messages), None)
        read = None if first is None else self._read(first)
        found = None if read is None else payloads(messages, read.prefix)
        return None if read is None or found is None else (read.schema, read.decode_column(found))

    def _read(self, message: bytes) -> _Read | None:
        last = self._last_read
        if last is not None and message.startswith(last.prefix):
            return last
        found = prefix_of(message)
        if found is None:
            return None
        prefix, written = found
        schema = self._schema_of(orjson.dumps(written, default=decimal_fallback))
        decoder = column_decoder(schema, is_null_replaced=self.replace_null_with_default) if schema else _unchanged
        self._last_read = _Read(prefix, schema, decoder)
        return self._last_read

    def _schemaless_column(self, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        messages = list(column)
        present = [each for each in messages if each is not None]
        found = parsed_all(present)
        if found is None or len(present) == len(messages):
            return None if found is None else (None, found)
        values = iter(found)
        return None, [None if each is None else next(values) for each in messages]

    def _payloads(self, schema: Schema, values: Sequence[Any]) -> Sequence[Any]:
        if isinstance(values, Utf8Column) and schema.type is SchemaType.STRING:
            return values.texts()
        return self._compiled(schema).encode_column(values)

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
        try:
            written = orjson.dumps(schema_to_json(schema, self._options))
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


def _parsed(data: bytes, *, keeps_digits: bool = False) -> Any:
    try:
        return parsed_with_decimals(data) if keeps_digits else parsed(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"Converting bytes from JSON failed due to serialization error: {error}") from error


def _unchanged(column: Sequence[Any]) -> Sequence[Any]:
    return column


def _schema_of(written: bytes) -> Schema | None:
    return schema_from_json(orjson.loads(written))
