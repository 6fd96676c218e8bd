"""StringConverter: values as text."""

import codecs
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fencepost.api import HIGH, RecordError, Schema, setting
from fencepost.builtin.converter.any_place import AnyPlaceConverter
from fencepost.config import Width
from fencepost.config.check import Check
from fencepost.record import BinaryColumn, Utf8Column
from fencepost.record.java_text import java_text
from fencepost.record.java_utf8 import REPLACED, java_decoded
from fencepost.record.schema import STRING

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
