"""AvroConverter: values in Avro, with their schemas in a schema registry."""

import json

from fencepost.api import Schema
from fencepost.builtin.converter.registry.avro.codec import AvroCodec
from fencepost.builtin.converter.registry.avro.from_connect import from_connect
from fencepost.builtin.converter.registry.avro.parsing import AvroType, of_json, parsed
from fencepost.builtin.converter.registry.avro.settings import AvroMapping
from fencepost.builtin.converter.registry.avro.to_connect import to_connect
from fencepost.builtin.converter.registry.client import WrittenSchema
from fencepost.builtin.converter.registry.converter import Extra, RegistryConverter
from fencepost.builtin.converter.registry.format import Reader, Referenced, Writer, Written


class AvroConverter(RegistryConverter, AvroMapping):
    """Writes and reads Avro as Confluent's converter of that name does."""

    extra = Extra("avro", ("fastavro",))
    type = "AVRO"

    def written(self, schema: Schema) -> Written:
        written = from_connect(schema, self)
        avro = of_json(written)
        text = json.dumps(written, separators=(",", ":"), ensure_ascii=False)
        return Written(WrittenSchema("AVRO", text), _name(avro), AvroCodec(avro, schema, self))

    def rewritten(self, schema: WrittenSchema, referenced: Referenced, derived: Written, *, is_strict: bool) -> Writer:
        avro = _parsed(schema, referenced)
        return AvroCodec(avro, to_connect(avro, self), self, omits_unknown=not is_strict)

    def reader(self, schema: WrittenSchema, referenced: Referenced, version: int | None) -> Reader:
        avro = _parsed(schema, referenced)
        return AvroCodec(avro, to_connect(avro, self, version), self)

    def name_of(self, schema: WrittenSchema, referenced: Referenced) -> str | None:
        return _name(_parsed(schema, referenced))


def _parsed(schema: WrittenSchema, referenced: Referenced) -> AvroType:
    return parsed(schema.text, [each.text for each in referenced.values()])


def _name(avro: AvroType) -> str | None:
    """Return the name of a record, alone or in a union with null."""
    named = [each for each in (avro, *avro.members) if each.kind == "record"]
    return named[0].name if len(named) == 1 else None
