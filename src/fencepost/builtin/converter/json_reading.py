"""How JsonConverter reads: messages in an envelope with their schema, or payloads of a given schema or of none.

A column of messages that carry the same schema is read with one look at the schema and one call for all payloads.
"""

import re
import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter.json_decoding import DecodeColumn, column_decoder, decode
from fencepost.builtin.converter.json_encoding import decimal_fallback
from fencepost.builtin.converter.json_parsing import parsed, parsed_with_decimals
from fencepost.builtin.converter.json_schema import schema_from_json
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


def payloads(messages: Sequence[bytes | None], prefix: bytes) -> list[Any] | None:
    """Return the parsed payloads of messages with that prefix; None if one of them begins or ends in another way.

    Raises ValueError if one of them is no JSON.
    """
    begin = len(prefix)
    texts = [each[begin:-1] for each in messages if each is not None and each.startswith(prefix) and each[-1:] == b"}"]
    return parsed_all(texts) if len(texts) == len(messages) else None


def parsed_all(texts: Sequence[bytes]) -> list[Any] | None:
    """Parse texts in one call; None if one of them is not exactly one JSON value, or ValueError."""
    if not texts:
        return []
    found = parsed(b"[" + _BETWEEN.join(texts) + b"]")
    marks = found[1::2]
    return found[::2] if len(found) == 2 * len(texts) - 1 and marks.count(_MARK) == len(marks) else None


Column = tuple[Schema | None, Sequence[Any]]

_ENVELOPE = {"schema", "payload"}
_DECIMAL_NAME = DECIMAL_NAME.encode()


class _Prefix(NamedTuple):
    """The text of messages up to the payload, the schema in it, and the decoder of payloads."""

    text: bytes
    schema: Schema | None
    decode_column: DecodeColumn


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
        found = None if prefix is None else payloads(messages, prefix.text)
        return None if prefix is None or found is None else (prefix.schema, prefix.decode_column(found))

    def _prefix(self, message: bytes) -> _Prefix | None:
        last = self._last
        if last is not None and message.startswith(last.text):
            return last
        found = prefix_of(message)
        if found is None:
            return None
        text, written = found
        schema = self._schema_of(orjson.dumps(written, default=decimal_fallback))
        self._last = _Prefix(text, schema, _column_decoder(schema, is_null_replaced=self._is_null_replaced))
        return self._last


class PayloadReader:
    """Reads JSON that is the payload of one schema; without a schema, any JSON."""

    def __init__(self, schema: Schema | None, *, keeps_digits: bool, is_null_replaced: bool) -> None:
        self._schema = schema
        self._keeps_digits = keeps_digits
        self._is_null_replaced = is_null_replaced
        self._decode_column = _column_decoder(schema, is_null_replaced=is_null_replaced)

    def read(self, data: bytes) -> tuple[Schema | None, Any]:
        """Read a message as `EnvelopeReader.read` does."""
        value = _parsed(data, keeps_digits=self._keeps_digits)
        return self._schema, decode(self._schema, value, is_null_replaced=self._is_null_replaced)

    def read_column(self, messages: list[bytes | None]) -> Column | None:
        """Read messages as `EnvelopeReader.read_column` does."""
        present = [each for each in messages if each is not None]
        is_whole = len(present) == len(messages)
        found = parsed_all(present) if is_whole or self._schema is None else None  # a tombstone has no schema
        if found is None or is_whole:
            return None if found is None else (self._schema, self._decode_column(found))
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


def _column_decoder(schema: Schema | None, *, is_null_replaced: bool) -> DecodeColumn:
    return (lambda column: column) if schema is None else column_decoder(schema, is_null_replaced=is_null_replaced)
