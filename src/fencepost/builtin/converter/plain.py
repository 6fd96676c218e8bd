"""Converters of single values without a schema of their own: bytes, text, numbers, booleans, and headers as text.

All but `SimpleHeaderConverter` convert headers as they do keys and values.
"""

import base64
import codecs
import datetime as dt
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from fencepost.api import HIGH, Converter, HeaderConverter, RecordError, Schema, setting
from fencepost.config import Width
from fencepost.config.check import Check
from fencepost.record import BinaryColumn, BytesColumn, HeaderBytes, HeaderColumn, Utf8Column
from fencepost.record.java_value import REPLACED, java_decoded, java_text
from fencepost.record.literal import parsed_literal
from fencepost.record.schema import BYTES, STRING
from fencepost.record.type_table import SchemaType


class SimpleHeaderConverter(HeaderConverter):
    """Writes text unchanged and other values as literals; reads literals back, and anything else as text."""

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        try:
            return None if value is None else _text(schema, value, is_inside=False).encode("utf-8", "replace")
        except RecursionError:
            raise RecordError(f"The value of the header {key} is nested too deeply for a text") from None

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        return parsed_literal(java_decoded(data))


def _text(schema: Schema | None, value: Any, *, is_inside: bool) -> str:
    if isinstance(value, str):
        return _quoted(value) if is_inside else value
    if isinstance(value, bytes | bytearray | memoryview):
        text = base64.b64encode(value).decode("ascii")
        return f'"{text}"' if is_inside else text
    if isinstance(value, Mapping):
        return "{" + ",".join(_pairs(schema, value)) + "}"
    if isinstance(value, list | tuple):
        of_item = None if schema is None else schema.value_schema
        return "[" + ",".join(_text(of_item, item, is_inside=True) for item in value) + "]"
    if isinstance(value, dt.date | dt.time):
        return _moment(value)
    return java_text(schema, value)


def _pairs(schema: Schema | None, value: Mapping[Any, Any]) -> Iterator[str]:
    if schema is not None and schema.type is SchemaType.STRUCT:
        for field in schema.fields:
            member = value.get(field.name)
            text = _text(field.schema, field.schema.default if member is None else member, is_inside=True)
            yield f"{_quoted(field.name)}:{text}"
        return
    of_key, of_item = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
    for key, item in value.items():
        yield f"{_text(of_key, key, is_inside=True)}:{_text(of_item, item, is_inside=True)}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _moment(value: dt.date | dt.time) -> str:
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        moment = aware.astimezone(dt.UTC)
        return f"{moment.year:04d}{moment:-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if isinstance(value, dt.time):
        return value.strftime("%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    return value.isoformat()


class AnyPlaceConverter(Converter, HeaderConverter):
    """Converts keys, values and headers in the same way."""

    def from_connect_header(self, topic: str, key: str, schema: Schema | None, value: Any) -> bytes | None:
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return self.to_connect_data(topic, data)


OPTIONAL_BYTES = BYTES.optional()


class ByteArrayConverter(AnyPlaceConverter):
    """Passes bytes on unchanged; refuses anything else."""

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if schema is not None and schema.type is not SchemaType.BYTES:
            raise RecordError(f"Invalid schema type for ByteArrayConverter: {schema.type.name}")
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise RecordError(f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}")

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        return OPTIONAL_BYTES, data

    def to_header_column(self, headers: Sequence[Sequence[HeaderBytes]]) -> HeaderColumn | None:
        return HeaderColumn(headers)

    def from_header_column(self, headers: HeaderColumn) -> Sequence[Sequence[HeaderBytes]] | None:
        return headers.raw

    def from_column(self, schema: Schema | None, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        if schema is not None and schema.type is not SchemaType.BYTES:
            return None
        if isinstance(values, BinaryColumn | BytesColumn):
            return values
        return values if set(map(type, values)) <= {bytes, type(None)} else None

    def to_column(self, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        return OPTIONAL_BYTES, column


OPTIONAL_STRING = STRING.optional()
_HALVES = re.compile("[\ud800-\udfff]")


def _known_encoding(name: str) -> str | None:
    try:
        codecs.lookup(name)
    except LookupError:
        return "not a known character set, such as UTF-8 or ISO-8859-1"
    return None


class StringConverter(AnyPlaceConverter):
    """Writes text unchanged and anything else as Java prints it; reads text."""

    encoding: str = setting(
        "converter.encoding",
        default="UTF-8",
        check=Check(_known_encoding, "a character set"),
        importance=HIGH,
        width=Width.MEDIUM,
        display_name="Encoding",
        doc="The name of the character set to use for encoding strings as bytes.",
    )

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self._codec = codecs.lookup(self.encoding).name
        self._errors = REPLACED if self._codec == "utf-8" else "replace"

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return self._encoded(java_text(schema, value))
        except TypeError as error:
            raise RecordError("StringConverter is not compatible with bytes; ByteArrayConverter is") from error
        except RecursionError:
            raise RecordError("The value is nested too deeply for a text") from None

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return OPTIONAL_STRING, None
        has_mark = data.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE))
        codec = "utf-16-be" if self._codec == "utf-16" and not has_mark else self._codec
        return OPTIONAL_STRING, data.decode(codec, self._errors)

    def _encoded(self, text: str) -> bytes:
        if self._codec.startswith("utf-16"):
            text = _HALVES.sub("\ufffd", text)
        if self._codec == "utf-16":  # Java's has a mark, and the high byte first
            return codecs.BOM_UTF16_BE + text.encode("utf-16-be") if text else b""
        return text.encode(self._codec, "replace")

    def from_column(self, schema: Schema | None, values: Sequence[Any]) -> Sequence[bytes | None] | None:
        if self._codec != "utf-8":
            return None
        if isinstance(values, Utf8Column):
            return values.utf8()
        kinds = set(map(type, values))
        if kinds == {str}:
            try:
                return [value.encode() for value in values]
            except UnicodeEncodeError:
                return None
        return [b"%d" % value for value in values] if kinds == {int} else None

    def to_column(self, column: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        """Keep UTF-8 as bytes until the text is used: values that only pass through are checked, but never decoded."""
        if self._codec != "utf-8":
            return None
        if isinstance(column, BinaryColumn) and not column.null_count:
            return OPTIONAL_STRING, Utf8Column(column)
        raw = [each for each in column if each is not None]
        if len(raw) == len(column):
            return OPTIONAL_STRING, Utf8Column(raw)
        return OPTIONAL_STRING, [None if each is None else java_decoded(each) for each in column]


class _NumberConverter(AnyPlaceConverter):
    """Converts values of the type `kind`, packed as `layout`."""

    kind: ClassVar[SchemaType]
    layout: ClassVar[struct.Struct]
    python_types: ClassVar[tuple[type, ...]] = (int,)
    is_null_of_any_type: ClassVar[bool] = True

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and self.is_null_of_any_type:
            return None
        if schema is not None and schema.type is not self.kind:
            raise RecordError(f"Invalid schema type for {type(self).__name__}: {schema.type.name}")
        if value is None:
            return None
        if not isinstance(value, self.python_types) or isinstance(value, bool) is not (bool in self.python_types):
            raise RecordError(f"{type(self).__name__} is not compatible with objects of type {type(value).__name__}")
        try:
            return self.layout.pack(value)
        except (struct.error, OverflowError) as error:
            raise RecordError(f"{value} does not fit {self.kind.name}: {error}") from error

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        schema = Schema(self.kind, is_optional=True)
        if data is None:
            return schema, None
        if len(data) != self.layout.size:
            raise RecordError(f"Size of data received by {type(self).__name__} is not {self.layout.size}")
        return schema, self.layout.unpack(data)[0]


class BooleanConverter(_NumberConverter):
    """One byte, 0 or 1."""

    kind = SchemaType.BOOLEAN
    layout = struct.Struct(">?")
    python_types = (bool,)
    is_null_of_any_type = False  # in Kafka's class, too

    def to_connect_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is not None and len(data) == 1 and data[0] > 1:
            raise RecordError("The byte of a boolean must be 0 or 1")
        return super().to_connect_data(topic, data)


class ShortConverter(_NumberConverter):
    """Two bytes."""

    kind = SchemaType.INT16
    layout = struct.Struct(">h")


class IntegerConverter(_NumberConverter):
    """Four bytes."""

    kind = SchemaType.INT32
    layout = struct.Struct(">i")


class LongConverter(_NumberConverter):
    """Eight bytes."""

    kind = SchemaType.INT64
    layout = struct.Struct(">q")


class FloatConverter(_NumberConverter):
    """Four bytes, IEEE 754."""

    kind = SchemaType.FLOAT32
    layout = struct.Struct(">f")
    python_types = (float, int)


class DoubleConverter(_NumberConverter):
    """Eight bytes, IEEE 754."""

    kind = SchemaType.FLOAT64
    layout = struct.Struct(">d")
    python_types = (float, int)
