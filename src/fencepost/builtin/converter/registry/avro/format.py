"""Avro as a format of the registry."""

import json
from collections.abc import Sequence
from typing import Any

from fencepost.api import Schema
from fencepost.builtin.converter.registry.avro.codec import AvroCodec
from fencepost.builtin.converter.registry.avro.from_connect import from_connect
from fencepost.builtin.converter.registry.avro.parsing import AvroType, of_json, parsed
from fencepost.builtin.converter.registry.avro.settings import AvroMapping
from fencepost.builtin.converter.registry.avro.to_connect import to_connect
from fencepost.builtin.converter.registry.client import WrittenSchema
from fencepost.builtin.converter.registry.format import Format, Reader, Referenced, Writer, Written


class AvroFormat(Format):
    """Avro, mapped as the settings say."""

    def __init__(self, mapping: AvroMapping) -> None:
        self._mapping = mapping

    def written(self, schema: Schema) -> Written:
        written = from_connect(schema, self._mapping)
        avro = of_json(written)
        text = json.dumps(written, separators=(",", ":"), ensure_ascii=False)
        return Written(WrittenSchema("AVRO", text), _name(avro), AvroCodec(avro, schema, self._mapping))

    def rewritten(self, schema: WrittenSchema, referenced: Referenced, derived: Written, *, is_strict: bool) -> Writer:
        avro = _parsed(schema, referenced)
        return AvroCodec(avro, to_connect(avro, self._mapping), self._mapping, omits_unknown=not is_strict)

    def reader(self, schema: WrittenSchema, referenced: Referenced, version: int | None) -> Reader:
        avro = _parsed(schema, referenced)
        return _AvroReader(AvroCodec(avro, to_connect(avro, self._mapping, version), self._mapping))

    def name_of(self, schema: WrittenSchema, referenced: Referenced) -> str | None:
        return _name(_parsed(schema, referenced))


class _AvroReader:
    def __init__(self, codec: AvroCodec) -> None:
        self._codec = codec

    def read(self, data: bytes, start: int) -> tuple[Schema, Any]:
        return self._codec.schema, self._codec.decode(data, start)

    def read_all(self, column: Sequence[bytes], start: int) -> tuple[Schema, list[Any]]:
        return self._codec.schema, self._codec.decode_all(column, start)


def _parsed(schema: WrittenSchema, referenced: Referenced) -> AvroType:
    return parsed(schema.text, [each.text for each in referenced.values()])


def _name(avro: AvroType) -> str | None:
    """Return the name of a record, alone or in a union with null."""
    named = [each for each in (avro, *avro.members) if each.kind == "record"]
    return named[0].name if len(named) == 1 else None
