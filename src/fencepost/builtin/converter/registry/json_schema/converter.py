"""JsonSchemaConverter: values in JSON, with their JSON Schema in a schema registry."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.json_decoding import parsed, parsed_with_decimals
from fencepost.builtin.converter.json_encoding import decimal_fallback, dumped_all, is_plain
from fencepost.builtin.converter.registry.client import WrittenSchema
from fencepost.builtin.converter.registry.converter import Extra, RegistryConverter
from fencepost.builtin.converter.registry.format import Format, Reader, Referenced, Writer, Written
from fencepost.builtin.converter.registry.json_schema.codec import decoder, encoder, is_union
from fencepost.builtin.converter.registry.json_schema.schema import Document, from_connect, to_connect
from fencepost.builtin.converter.registry.settings import JsonSchemaMapping
from fencepost.record.type_table import DECIMAL_NAME

Check = Callable[[Any], None]


class JsonSchemaFormat(JsonSchemaMapping, Format):
    """JSON Schema, mapped as the settings say."""

    def written(self, schema: Schema) -> Written:
        written = from_connect(schema, self)
        text = json.dumps(written, separators=(",", ":"), ensure_ascii=False)
        return Written(WrittenSchema("JSON", text), _name(written), _JsonWriter(schema, self))

    def rewritten(self, schema: WrittenSchema, referenced: Referenced, derived: Written, *, is_strict: bool) -> Writer:
        newest = to_connect(Document.of(schema, referenced), self)
        return _JsonWriter(newest, self, omits_unknown=not is_strict)

    def reader(self, schema: WrittenSchema, referenced: Referenced, version: int | None) -> Reader:
        document = Document.of(schema, referenced)
        check = _validator(schema, referenced) if self.fail_invalid_schema else None
        return _JsonReader(to_connect(document, self, version), check)

    def name_of(self, schema: WrittenSchema, referenced: Referenced) -> str | None:
        return _name(Document.of(schema, referenced).root)


class JsonSchemaConverter(RegistryConverter, JsonSchemaFormat):
    """Writes and reads JSON as Confluent's converter of that name does."""

    extra = Extra("json-schema", ("jsonschema",))
    type = "JSON"


class _JsonWriter:
    def __init__(self, schema: Schema, mapping: JsonSchemaMapping, *, omits_unknown: bool = False) -> None:
        self.lead = b""
        self._schema = schema
        self._encode = encoder(schema, mapping, omits_unknown=omits_unknown)
        self._has_unions = _has_union(schema)

    def encode(self, value: Any) -> bytes:
        return _dumped(self._encode(value))

    def encode_all(self, values: Sequence[Any], lead: bytes) -> list[bytes]:
        ready = values if not self._has_unions and is_plain(self._schema, values) else list(map(self._encode, values))
        try:
            together = dumped_all(ready, lead)
        except TypeError:
            together = None
        return list(together) if together is not None else [lead + _dumped(value) for value in ready]


class _JsonReader:
    def __init__(self, schema: Schema, check: Check | None) -> None:
        self._schema = schema
        self._decode = decoder(schema)
        self._check = check
        self._parse = parsed_with_decimals if _has_decimal(schema) else parsed

    def read(self, data: bytes, start: int) -> tuple[Schema, Any]:
        try:
            value = self._parse(data[start:])
            if self._check is not None:
                self._check(value)
            return self._schema, self._decode(value)
        except (ValueError, TypeError, RecursionError) as error:
            raise RecordError(f"Converting from JSON failed: {type(error).__name__}: {str(error)[:200]}") from error

    def read_all(self, column: Sequence[bytes], start: int) -> tuple[Schema, list[Any]]:
        return self._schema, [self.read(data, start)[1] for data in column]


def _dumped(ready: Any) -> bytes:
    try:
        return orjson.dumps(ready, default=decimal_fallback)
    except (TypeError, RecursionError) as error:
        raise RecordError(f"Converting to JSON failed: {error}") from error


def _name(root: Any) -> str | None:
    """Return the title of a schema, alone or in a union with null."""
    if not isinstance(root, dict):
        return None
    title = root.get("title")
    if isinstance(title, str):
        return title
    members = [each for each in root.get("oneOf") or () if isinstance(each, dict) and "title" in each]
    return _name(members[0]) if len(members) == 1 else None


def _parts(schema: Schema) -> list[Schema]:
    parts = (schema.key_schema, schema.value_schema, *(field.schema for field in schema.fields))
    return [part for part in parts if part is not None]


def _has_union(schema: Schema) -> bool:
    is_one = schema.type is SchemaType.STRUCT and is_union(schema)
    return is_one or any(map(_has_union, _parts(schema)))


def _has_decimal(schema: Schema) -> bool:
    return schema.name == DECIMAL_NAME or any(map(_has_decimal, _parts(schema)))


def _validator(schema: WrittenSchema, referenced: Referenced) -> Check:
    from jsonschema import ValidationError
    from jsonschema.validators import Draft7Validator, validator_for
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT7

    known = [(name, Resource.from_contents(json.loads(each.text), DRAFT7)) for name, each in referenced.items()]
    root = json.loads(schema.text)
    validator = validator_for(root, Draft7Validator)(root, registry=Registry().with_resources(known))

    def check(value: Any) -> None:
        try:
            validator.validate(value)
        except ValidationError as error:
            where = "/".join(map(str, error.absolute_path))
            raise RecordError(
                f"The value breaks a rule of its JSON Schema{f' at {where}' if where else ''} ({error.validator}: "
                f"{str(error.validator_value)[:100]}); json.fail.invalid.schema=false reads it nevertheless"
            ) from None

    return check
