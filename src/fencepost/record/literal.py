"""Literals of values in text: of headers, and in the config of a transform, as Kafka Connect infers them."""

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Any, NamedTuple

from fencepost.record.java_value import fits, float32
from fencepost.record.schema import (
    BOOLEAN,
    DATE,
    FLOAT32,
    FLOAT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    decimal,
)
from fencepost.record.type_table import INTEGER_BITS, SchemaType

MOST_DIGITS = 4_000
"""The digits of a decimal number; Python turns integers of up to 4,300 digits into text."""
_TIME_LENGTH, _TIMESTAMP_LENGTH, _DATE_LENGTH = len("03:04:05.678Z"), len("2026-01-02T03:04:05.678Z"), len("2026-01-02")
_DELIMITERS = r':,{}\[\]"'
_TOKEN = re.compile(rf"(?:\\.|\\$|[^\\{_DELIMITERS}])+|[{_DELIMITERS}]", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?")
_BLANK = "".join(map(chr, range(33)))
_TOKENS_OF_TIME = 5  # an hour, a colon, minutes, a colon, seconds


class Literal(NamedTuple):
    """The schema of a value, and the value."""

    schema: Schema | None
    value: Any


class _NoLiteralError(Exception):
    """A text is no list or map, or one that has no schema."""


_WORDS = {"null": Literal(None, None), "true": Literal(BOOLEAN, True), "false": Literal(BOOLEAN, False)}


def parsed_literal(text: str) -> Literal:
    """Return the value that a text stands for, as Kafka's `Values.parseString` infers it; a text by default.

    A text that only begins with a number, a list or a map is a text.
    """
    first = text.lstrip(_BLANK)[:1]
    if first.isdigit() or first in ("+", "-", "[", "{", "n", "t", "f"):
        try:
            parser = _Parser(_TOKEN.findall(text))
            found = parser.value(is_inside=False)
            if found is not None and parser.is_at_end:
                return found
        except (_NoLiteralError, RecursionError):
            pass
    return Literal(STRING, text)


class _Parser:
    """Reads values from the tokens of a text, from the first to the last."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._tokens)

    def value(self, *, is_inside: bool) -> Literal | None:
        """Return the next value; None if there is none. Raises _NoLiteralError."""
        if self._takes("["):
            return self._list()
        if self._takes("{"):
            return self._map()
        if is_inside and self._takes('"'):
            return self._quoted()
        if self.is_at_end:
            return None
        token = self._next().strip(_BLANK)
        if token in _WORDS:
            return _WORDS[token]
        moment = self._moment(token) if token[:1].isdigit() else None
        number = _number(token) if moment is None else moment
        if number is None:
            raise _NoLiteralError
        return number

    def _takes(self, expected: str) -> bool:
        """Go past the token if it is the next one. Blanks before a token do not count."""
        while self._at + 1 < len(self._tokens) and not self._tokens[self._at].strip(_BLANK):
            self._at += 1
        is_next = not self.is_at_end and self._tokens[self._at].strip(_BLANK) == expected
        self._at += is_next
        return is_next

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _quoted(self) -> Literal:
        found = []
        while not self.is_at_end and (token := self._next()) != '"':
            found.append(token)
        text = _ESCAPED.sub(r"\1", "".join(found))
        return _as_moment(text) or Literal(STRING, text)

    def _list(self) -> Literal:
        found: list[Literal] = []
        while not self._takes("]"):
            found.append(self._item())
            if not self._takes(","):
                if not self._takes("]"):
                    raise _NoLiteralError
                break
        schema = _common(found)
        values = [_fitted(schema, each) for each in found]
        return Literal(Schema(SchemaType.ARRAY, value_schema=schema), values)

    def _map(self) -> Literal:
        keys: list[Literal] = []
        items: list[Literal] = []
        while not self._takes("}"):
            key = self._item()
            if key.value is None or not self._takes(":"):
                raise _NoLiteralError
            keys.append(key)
            items.append(self._item())
            self._takes(",")
        of_key, of_item = _common(keys), _common(items)
        if of_key is None:
            of_item = None
        try:
            pairs = {_fitted(of_key, key): _fitted(of_item, item) for key, item in zip(keys, items, strict=True)}
        except TypeError:  # a list as a key
            raise _NoLiteralError from None
        return Literal(Schema(SchemaType.MAP, key_schema=of_key, value_schema=of_item), pairs)

    def _item(self) -> Literal:
        found = None if self._takes(",") else self.value(is_inside=True)
        if found is None:
            raise _NoLiteralError
        return found

    def _moment(self, token: str) -> Literal | None:
        """Return a date or time that begins with the token, which was taken."""
        stop = self._at + _TOKENS_OF_TIME - 1
        if stop <= len(self._tokens):
            found = _as_moment(token + "".join(self._tokens[self._at : stop]))
            if found is not None:
                self._at = stop
                return found
        return _as_moment(token)


def _as_moment(text: str) -> Literal | None:
    text = text.replace("\\:", ":")
    try:
        if len(text) == _TIME_LENGTH:
            return Literal(TIME, dt.datetime.strptime(text, "%H:%M:%S.%fZ").time())
        if len(text) == _TIMESTAMP_LENGTH:
            return Literal(TIMESTAMP, dt.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=dt.UTC))
        if len(text) == _DATE_LENGTH:
            return Literal(DATE, dt.datetime.strptime(text, "%Y-%m-%d").date())
    except ValueError:
        pass
    return None


def _number(text: str) -> Literal | None:
    """Return the smallest type that has the number; fractions have 32 bits if these are enough for their size."""
    if _NUMBER.fullmatch(text) is None:
        return None
    exact = Decimal(text)
    _, digits, exponent = exact.as_tuple()
    if len(digits) > MOST_DIGITS or abs(int(exponent)) > MOST_DIGITS:
        return None
    if exact == exact.to_integral_value():
        number = int(exact)
        kind = next((kind for kind, bits in INTEGER_BITS.items() if fits(number, bits)), None)
        if kind is not None:
            return Literal(Schema(kind), number)
    near = float(exact)
    if not exponent or math.isinf(near):
        return Literal(decimal(-int(exponent)), exact)
    try:
        return Literal(FLOAT32, float32(near))
    except OverflowError:
        return Literal(FLOAT64, near)


_WIDTHS = [*INTEGER_BITS, SchemaType.FLOAT32, SchemaType.FLOAT64]


def _common(found: list[Literal]) -> Schema | None:
    """Return the schema that has all the values; None if there is none, or if all are null."""
    common: Schema | None = None
    for schema, _ in found:
        if schema is None or schema == common:
            continue
        if common is None or (schema.type is common.type and not (schema.name or common.name)):
            common = schema
        elif schema.type in _WIDTHS and common.type in _WIDTHS and not (schema.name or common.name):
            common = max(schema, common, key=lambda each: _WIDTHS.index(each.type))
        else:
            return None
    return common


def _fitted(schema: Schema | None, found: Literal) -> Any:
    """Return a value of a list or map with the schema of all. Raises _NoLiteralError if it does not fit."""
    if schema is None or found.schema == schema:
        return found.value
    if found.value is None or schema.name is not None or found.schema is None or found.schema.name is not None:
        raise _NoLiteralError
    if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        return float32(float(found.value)) if schema.type is SchemaType.FLOAT32 else float(found.value)
    return found.value
