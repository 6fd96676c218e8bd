"""The payload of an outbox row: JSON in a text as a struct or array, with a schema that follows from its content."""

import json
import re
from collections.abc import Sequence
from typing import Any

import orjson

from fencepost.api import Schema
from fencepost.record import Field, SchemaType
from fencepost.record.java_integer import fits
from fencepost.record.schema import BOOLEAN, BYTES, FLOAT64, INT32, INT64, STRING

_LONG_INTEGER = re.compile(r"\d{19}")
_PLAIN = {bool: BOOLEAN.optional(), str: STRING.optional(), float: FLOAT64.optional()}


class JsonExpansion:
    """Makes structs of JSON. Nulls and empty arrays have no type: their fields are left out, or are optional bytes."""

    def __init__(self, *, keeps_nulls: bool) -> None:
        self._keeps_nulls = keeps_nulls

    def expanded(self, text: str, name: str) -> tuple[Schema, Any]:
        """Return the schema, of that name, and the value of an object or array. Raises ValueError for anything else."""
        value = orjson.loads(text)
        if _LONG_INTEGER.search(text):  # which it rounds
            value = json.loads(text)
        if not isinstance(value, dict | list) or text[:1] not in ("{", "["):
            raise ValueError("it is neither an object nor an array")
        schema = self._schema(value, name)
        if schema is None:
            raise ValueError("it is empty")
        return schema, _fitting(schema, value)

    def _schema(self, value: Any, name: str) -> Schema | None:
        """Return the schema of a value; None if it is left out."""
        if value is None:
            return BYTES.optional() if self._keeps_nulls else None
        if isinstance(value, dict):
            return self._struct([value], name)
        if isinstance(value, list):
            return self._array(value, name)
        if type(value) is int:
            if not fits(value, 64):
                raise ValueError("a number has more than 64 bits")
            return (INT32 if fits(value, 32) else INT64).optional()
        return _PLAIN[type(value)]

    def _struct(self, objects: Sequence[dict[str, Any]], name: str) -> Schema:
        """Return a schema for all objects. A field has the type that it has in each of them."""
        members: dict[str, list[Any]] = {}
        for each in objects:
            for key, value in each.items():
                members.setdefault(key, []).append(value)
        if "" in members:
            raise ValueError("a field has no name")
        schemas = {key: self._common(_told(values), f"{name}.{key}") for key, values in members.items()}
        fields = tuple(Field(key, schema) for key, schema in schemas.items() if schema is not None)
        return Schema(SchemaType.STRUCT, is_optional=len(objects) == 1, name=name, fields=fields)

    def _array(self, items: list[Any], name: str) -> Schema | None:
        if not items:
            return None
        schema = self._common(items, name)
        if schema is None:
            raise ValueError("the items of an array have no type")
        return Schema(SchemaType.ARRAY, is_optional=True, value_schema=schema)

    def _common(self, values: list[Any], name: str) -> Schema | None:
        """Return the schema that values share; None if all of them are left out. Raises ValueError if they differ."""
        present = [value for value in values if value is not None]
        if not present:
            return self._schema(None, name)
        if all(isinstance(value, dict) for value in present):
            return self._struct(present, name)
        found = {self._schema(value, name) for value in present}
        if len(found) > 1:
            raise ValueError("the items of an array have different types")
        return found.pop()


def _told(values: list[Any]) -> list[Any]:
    """Return the values of a field without empty arrays, which say nothing about its type, if there are others."""
    return [value for value in values if value != []] or values


def _fitting(schema: Schema, value: Any) -> Any:
    """Return a value without what its schema leaves out."""
    if value is None:
        return None
    if schema.type is SchemaType.STRUCT:
        return {field.name: _fitting(field.schema, value.get(field.name)) for field in schema.fields}
    if schema.type is SchemaType.ARRAY:
        assert schema.value_schema is not None
        return [_fitting(schema.value_schema, item) for item in value]
    return value
