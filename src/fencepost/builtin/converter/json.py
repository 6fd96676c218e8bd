"""JsonConverter: values as JSON, alone or in an envelope with their schema.

A column of messages that carry the same schema is read with one look at the schema and one call for all payloads.
"""

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import orjson

from fencepost.api import HIGH, LOW, RecordError, Schema, Type, at_least, one_of, setting
from fencepost.builtin.converter.connect_value import Encode
from fencepost.builtin.converter.json_decoding import (
    DecodeColumn,
    column_decoder,
    decode,
    is_flat,
    parsed,
    parsed_with_decimals,
    struct_columns,
)
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
from fencepost.builtin.converter.json_schema import schema_from_json, schema_to_json
from fencepost.builtin.converter.plain import AnyPlaceConverter
from fencepost.config import Width
from fencepost.config.check import Check
from fencepost.record import ArrowColumn, StructColumn, Utf8Column
from fencepost.record.type_table import DECIMAL_NAME

_BEGIN = re.compile(rb'\s*\{\s*"schema"\s*:')
_PAYLOAD = re.compile(rb',\s*"payload"\s*:')

# Separates payloads that are parsed together. Nobody can know it, so that no two wrong payloads make up right ones.
_MARK = secrets.token_hex(16)
_BETWEEN = b',"' + _MARK.encode() + b'",'


def prefix_of(message: bytes) -> tuple[bytes, Any] | None:
    """Return a message's text up to its payload, and the schema in it as JSON; None if it has another form."""
    begin = _BEGIN.match(message)
    if begin is None:
        return None
    for payload in _PAYLOAD.finditer(message, begin.end()):
        try:
            return message[: payload.end()], parsed(message[begin.end() : payload.start()])
        except ValueError:  # these are members of the schema
            continue
    return None


def payloads(messages: Sequence[bytes | None], prefix: bytes) -> list[bytes] | None:
    """Return the payloads of messages with that prefix; None if one of them begins or ends in another way."""
    begin = len(prefix)
    texts = [each[begin:-1] for each in messages if each is not None and each.startswith(prefix) and each[-1:] == b"}"]
    return texts if len(texts) == len(messages) else None


def parsed_all(texts: Sequence[bytes], parse: Callable[[bytes], Any] = parsed) -> list[Any] | None:
    """Parse texts in one call; None if one of them is not exactly one JSON value, or ValueError."""
    if not texts:
        return []
    found = parse(b"[" + _BETWEEN.join(texts) + b"]")
    marks = found[1::2]
    return found[::2] if len(found) == 2 * len(texts) - 1 and marks.count(_MARK) == len(marks) else None


Column = tuple[Schema | None, Sequence[Any]]

_ENVELOPE = {"schema", "payload"}
_DECIMAL_NAME = DECIMAL_NAME.encode()
_MANY = 64  # fewer rows cost more in calls of Arrow than they save


class _Payloads:
    """Reads texts that are payloads of one schema, or of none."""

    def __init__(self, schema: Schema | None, *, is_null_replaced: bool) -> None:
        self.schema = schema
        self._is_null_replaced = is_null_replaced
        self._is_flat = schema is not None and is_flat(schema)
        self._decode_column: DecodeColumn | None = (
            None if schema is None else column_decoder(schema, is_null_replaced=is_null_replaced)
        )

    def read(self, texts: Sequence[bytes]) -> Sequence[Any] | None:
        """Return their values; None if one of them is not one payload. Raises as `EnvelopeReader.read_column` does."""
        if self._is_flat and self.schema is not None and len(texts) >= _MANY:
            rows = parsed_all(texts, orjson.loads)
            columns = rows and struct_columns(self.schema, rows, texts, is_null_replaced=self._is_null_replaced)
            if columns:
                return columns
        found = parsed_all(texts)
        return found if found is None or self._decode_column is None else self._decode_column(found)


class _Prefix(NamedTuple):
    """The text of messages up to the payload, and the reader of payloads."""

    text: bytes
    payloads: _Payloads


class EnvelopeReader:
    """Reads `{"schema":…,"payload":…}`. Remembers `cache_size` schemas."""

    def __init__(self, cache_size: int, *, is_null_replaced: bool) -> None:
        self._is_null_replaced = is_null_replaced
        self._last: _Prefix | None = None
        self._schema_of: Callable[[bytes], Schema | None] = lru_cache(cache_size)(
            lambda written: schema_from_json(orjson.loads(written), is_null_replaced=is_null_replaced)
        )

    def read(self, data: bytes) -> tuple[Schema | None, Any]:
        """Return the schema and the value. Raises RecordError, or TypeError for what JSON cannot hold."""
        value = _parsed(data, keeps_digits=_DECIMAL_NAME in data)
        if not isinstance(value, dict) or value.keys() != _ENVELOPE:
            raise RecordError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
                "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false in your "
                "converter configuration."
            )
        schema = self._schema_of(orjson.dumps(value["schema"], default=decimal_fallback))
        if schema is None and _DECIMAL_NAME in data:
            return None, _parsed(data)["payload"]
        return schema, decode(schema, value["payload"], is_null_replaced=self._is_null_replaced)

    def read_column(self, messages: list[bytes | None]) -> Column | None:
        """Return the schema and the values of messages that can be read together, or None.

        Raises ValueError, TypeError or RecordError for a message that cannot be read: it is to be found by `read`.
        """
        first = next(filter(None, messages), None)
        prefix = None if first is None else self._prefix(first)
        texts = None if prefix is None else payloads(messages, prefix.text)
        found = None if prefix is None or texts is None else prefix.payloads.read(texts)
        return None if prefix is None or found is None else (prefix.payloads.schema, found)

    def _prefix(self, message: bytes) -> _Prefix | None:
        last = self._last
        if last is not None and message.startswith(last.text):
            return last
        found = prefix_of(message)
        if found is None:
            return None
        text, written = found
        schema = self._schema_of(orjson.dumps(written, default=decimal_fallback))
        self._last = _Prefix(text, _Payloads(schema, is_null_replaced=self._is_null_replaced))
        return self._last


class PayloadReader:
    """Reads JSON that is the payload of one schema; without a schema, any JSON."""

    def __init__(self, schema: Schema | None, *, keeps_digits: bool, is_null_replaced: bool) -> None:
        self._schema = schema
        self._keeps_digits = keeps_digits
        self._is_null_replaced = is_null_replaced
        self._payloads = _Payloads(schema, is_null_replaced=is_null_replaced)

    def read(self, data: bytes) -> tuple[Schema | None, Any]:
        """Read a message as `EnvelopeReader.read` does."""
        value = _parsed(data, keeps_digits=self._keeps_digits)
        return self._schema, decode(self._schema, value, is_null_replaced=self._is_null_replaced)

    def read_column(self, messages: list[bytes | None]) -> Column | None:
        """Read messages as `EnvelopeReader.read_column` does."""
        present = [each for each in messages if each is not None]
        is_whole = len(present) == len(messages)
        is_read = is_whole or self._schema is None  # a tombstone has no schema
        found = self._payloads.read(present) if is_read else None
        if found is None or is_whole:
            return None if found is None else (self._schema, found)
        values = iter(found)
        return None, [None if each is None else next(values) for each in messages]


JsonReader = EnvelopeReader | PayloadReader
"""Reads messages that are there: not None."""


def json_reader(*, has_schemas: bool, content: str | None, cache_size: int, is_null_replaced: bool) -> JsonReader:
    """Return the reader for a converter's settings. Raises RecordError if `content` is not the text of a schema."""
    if not has_schemas:
        return PayloadReader(None, keeps_digits=False, is_null_replaced=is_null_replaced)
    schema = given_schema(content, is_null_replaced=is_null_replaced) if content else None
    if content is None or schema is None:
        return EnvelopeReader(cache_size, is_null_replaced=is_null_replaced)
    return PayloadReader(schema, keeps_digits=DECIMAL_NAME in content, is_null_replaced=is_null_replaced)


def given_schema(content: str, *, is_null_replaced: bool = True) -> Schema | None:
    """Return the schema in a text, written as in an envelope; None for null. Raises RecordError if it is none."""
    try:
        written = _parsed(content.encode("utf-8", "replace"), keeps_digits=DECIMAL_NAME in content)
        return schema_from_json(written, is_null_replaced=is_null_replaced)
    except (TypeError, RecursionError) as error:
        raise RecordError(str(error)) from error


def _parsed(data: bytes, *, keeps_digits: bool = False) -> Any:
    try:
        return parsed_with_decimals(data) if keeps_digits else parsed(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"Converting bytes from JSON failed due to serialization error: {error}") from error


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
