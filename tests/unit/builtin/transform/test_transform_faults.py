"""Wrong settings of transforms are refused with their key; what they cannot do with a record is a RecordError."""

from typing import Any

import pytest

from fencepost.api import ConfigError, RecordError, Schema, SourceRecord
from fencepost.plugin import PluginKind, registry
from fencepost.record.schema import INT32, STRING

ONE_FIELD = Schema.struct({"a": INT32})
NESTED = Schema.struct({"a": Schema.struct({"b": INT32}), "a.b": INT32})


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("Cast$Value", {}, "spec"),
        ("Cast$Value", {"spec": "a:int8,b"}, "Invalid type found in casting spec: b"),
        ("Cast$Value", {"spec": "a:bytes"}, "Invalid type found in casting spec: bytes"),
        ("Cast$Value", {"spec": "a:int8,int16"}, "may only specify a single cast"),
        ("Cast$Value", {"spec": "a:b:int8"}, "Invalid rename mapping: a:b:int8"),
        ("DropHeaders", {"headers": ""}, "headers"),
        ("DropHeaders", {"headers": "a,a"}, "each name once"),
        ("EventRouter", {"route.topic.replacement": "${x}"}, "configuration route.topic.replacement: No group"),
        ("EventRouter", {"table.fields.additional.placement": "a"}, "a is not column:placement"),
        ("ExtractField$Key", {"field": "`a", "field.syntax.version": "V2"}, "Incomplete backtick pair in path"),
        ("ExtractField$Key", {"field": "a", "field.syntax.version": "V3"}, "field.syntax.version"),
        ("ExtractNewRecordState", {"add.headers": "op,a.b.c"}, "add.headers: Unexpected field name: a.b.c"),
        ("HeaderFrom$Value", {"fields": "a,b", "headers": "x", "operation": "move"}, "same number of elements"),
        ("HeaderFrom$Value", {"fields": "a", "headers": "x", "operation": "MOVE"}, "operation"),
        ("MaskField$Value", {"fields": "a", "replacement": ""}, "replacement"),
        ("RegexRouter", {"regex": "a", "replacement": "$1"}, "configuration replacement: No group 1"),
        ("SetSchemaMetadata$Value", {}, "Neither schema name nor version configured"),
        ("TimestampConverter$Value", {"target.type": "date"}, "target.type"),
        ("TimestampConverter$Value", {"target.type": "string"}, "requires format option"),
        ("TimestampConverter$Value", {"target.type": "unix", "format": "yyyy-ww"}, "the letter w is not supported"),
        ("TimestampRouter", {"timestamp.format": "'"}, "Unterminated quote"),
        ("ValueToKey", {"fields": ""}, "fields"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name: str, settings: dict[str, str], text: str) -> None:
    transform = registry().find(PluginKind.TRANSFORM, name)
    with pytest.raises(ConfigError, match=text.replace("$", r"\$")):
        transform(settings)


@pytest.mark.parametrize(
    ("name", "settings", "value", "schema"),
    [
        ("Cast$Value", {"spec": "a:int8"}, {"a": "x"}, None),
        ("ExtractField$Value", {"field": "b"}, {"a": 1}, ONE_FIELD),
        ("Flatten$Value", {}, {"a": {"b": 1}, "a.b": 1}, NESTED),
        ("HeaderFrom$Value", {"fields": "b", "headers": "h", "operation": "copy"}, {"a": 1}, ONE_FIELD),
        ("MaskField$Value", {"fields": "a", "replacement": "x"}, {"a": 1}, None),
        ("TimestampConverter$Value", {"target.type": "unix", "format": "yyyy"}, "x", STRING),
        ("TimestampConverter$Value", {"target.type": "unix"}, "2026", STRING),
        ("TimestampRouter", {}, 1, None),
        ("ValueToKey", {"fields": "b"}, {"a": 1}, ONE_FIELD),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_transformed_is_a_record_error(
    name: str, settings: dict[str, str], value: Any, schema: Schema | None
) -> None:
    transform = registry().find(PluginKind.TRANSFORM, name)(settings)
    with pytest.raises(RecordError):
        transform.apply(SourceRecord({}, None, "t", value, schema))
