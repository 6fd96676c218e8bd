"""AvroConverter: values in Avro, by fastavro, with their schemas in a schema registry.

fastavro gets a reduced schema. Logical types are left out where Connect's rules differ from fastavro's. Each member of
a union that becomes a struct is a record of one field, which Avro writes exactly as the field alone, so that the member
that was read is known.
"""

import json
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, NamedTuple

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter import connect_value
from fencepost.builtin.converter.connect_value import (
    LOGICAL_TYPES,
    member_of_union,
    part,
    shown,
    struct_encoder,
    unscaled,
)
from fencepost.builtin.converter.json_encoding import is_plain
from fencepost.builtin.converter.registry.avro import parsing
from fencepost.builtin.converter.registry.avro.parsing import AvroType, of_json, parsed
from fencepost.builtin.converter.registry.avro.schema import from_connect, is_map_entry, optional_part, to_connect
from fencepost.builtin.converter.registry.client import WrittenSchema
from fencepost.builtin.converter.registry.converter import Extra, RegistryConverter
from fencepost.builtin.converter.registry.format import Reader, Referenced, Writer, Written
from fencepost.builtin.converter.registry.settings import AvroMapping
from fencepost.record.schema import DATE, TIME, TIMESTAMP
from fencepost.record.type_table import DECIMAL_NAME

Convert = Callable[[Any], Any]

_READ_BY_FASTAVRO = {DATE.name: "date", TIME.name: "time-millis", TIMESTAMP.name: "timestamp-millis"}
_UNREADABLE = (
    EOFError, IndexError, ValueError, OverflowError, TypeError, AttributeError, StopIteration, MemoryError,
    RecursionError,
)  # fmt: skip
_UNWRITABLE = (ValueError, TypeError, OverflowError, AttributeError, KeyError, IndexError, RecursionError)
_PADDING = bytes(16)


class Node(NamedTuple):
    """A type: its reduced schema, and the conversions of a value before it is written and after it was read.

    `encode` raises RecordError for a value that does not fit. No `decode` means that a value is as it was read.
    """

    schema: Any
    encode: Convert
    decode: Convert | None = None


class AvroCodec:
    """Writer and reader of values of one schema. `schema` is Connect's schema of `avro`.

    A field that the schema lacks is refused, or left out where `omits_unknown`.
    """

    def __init__(self, avro: AvroType, schema: Schema, mapping: AvroMapping, *, omits_unknown: bool = False) -> None:
        from fastavro import parse_schema, schemaless_reader, schemaless_writer

        self._reader, self._writer = schemaless_reader, schemaless_writer  # an import for each value would cost time
        self.schema = schema
        self.lead = b""
        builder = _Builder(mapping, omits_unknown)
        self._node = builder.node(avro, schema)
        self._takes_plain = not builder.changes_values
        self._parsed = parse_schema(self._node.schema)

    def encode(self, value: Any) -> bytes:
        out = BytesIO()
        self._write(out, self._node.encode(value))
        return out.getvalue()

    def encode_all(self, values: Sequence[Any], lead: bytes) -> list[bytes]:
        ready = values if self._takes_plain and is_plain(self.schema, values) else list(map(self._node.encode, values))
        out, write, tell = BytesIO(), self._write, 0
        ends = []
        for value in ready:
            out.write(lead)
            write(out, value)
            ends.append(out.tell())
        data = out.getvalue()
        found = []
        for end in ends:
            found.append(data[tell:end])
            tell = end
        return found

    def read(self, data: bytes, start: int) -> tuple[Schema, Any]:
        return self.schema, self.read_all([data], start)[1][0]

    def read_all(self, column: Sequence[bytes], start: int) -> tuple[Schema, list[Any]]:
        """Read all from one buffer, so that a value that is cut short is noticed: it would go on in the next one."""
        buffer = BytesIO(b"".join([*column, _PADDING]))
        read, parsed, seek, tell = self._reader, self._parsed, buffer.seek, buffer.tell
        values, end = [], 0
        for data in column:
            seek(end + start)
            end += len(data)
            try:
                values.append(read(buffer, parsed, None))
            except _UNREADABLE as error:
                raise _unreadable(f"{type(error).__name__}: {error}") from error
            if tell() > end:
                raise _unreadable("the bytes end before the value does")
        decode = self._node.decode
        return self.schema, values if decode is None else list(map(decode, values))

    def _write(self, out: BytesIO, ready: Any) -> None:
        try:
            self._writer(out, self._parsed, ready)
        except _UNWRITABLE as error:
            raise RecordError(f"Converting to Avro failed: {type(error).__name__}: {str(error)[:200]}") from error


def _unreadable(reason: str) -> RecordError:
    return RecordError(f"Converting from Avro failed, because the value does not fit its schema: {reason[:200]}")


class _Builder:
    def __init__(self, mapping: AvroMapping, omits_unknown: bool) -> None:
        self._mapping = mapping
        self._omits_unknown = omits_unknown
        self._named: dict[str, Node] = {}
        self._members = 0
        self.changes_values = False

    def node(self, avro: AvroType, schema: Schema) -> Node:
        """Return the node of a type, with `schema` as Connect's schema of it."""
        if avro.kind != "union":
            return _required(self._typed(avro, schema), schema)
        other = optional_part(avro)
        if other is not None:
            return self._optional(avro, self._typed(other, schema), schema)
        if schema.type is not SchemaType.STRUCT or len(schema.fields) != sum(m.kind != "null" for m in avro.members):
            member = self._typed(avro.members[0], schema)  # a union of one that is flattened
            return _required(Node([member.schema], member.encode, member.decode), schema)
        return self._union(avro, schema)

    def _optional(self, avro: AvroType, node: Node, schema: Schema) -> Node:
        absent = None
        if schema.default is not None and not self._mapping.ignore_default_for_nullables:
            absent = node.encode(schema.default)
        encode, decode = node.encode, node.decode
        members = ["null" if each.kind == "null" else node.schema for each in avro.members]
        return Node(
            members,
            lambda value: absent if value is None else encode(value),
            None if decode is None else lambda value: None if value is None else decode(value),
        )

    def _union(self, avro: AvroType, schema: Schema) -> Node:
        """Return the node of a struct with a field for each member, of which a value has one."""
        members: list[Any] = []
        encoders: dict[str, tuple[str, str, Convert]] = {}
        decoders: dict[str, tuple[str, Convert | None]] = {}
        fields = iter(schema.fields)
        self.changes_values = True
        for each in avro.members:
            if each.kind == "null":
                members.append("null")
                continue
            field = next(fields)
            node = self._typed(each, field.schema)
            self._members += 1
            tag = f"Member{self._members}"  # after reading, it says which member it was
            wrapper = f"fencepost.union.{tag}"
            members.append({"type": "record", "name": wrapper, "fields": [{"name": tag, "type": node.schema}]})
            encoders[field.name] = (wrapper, tag, node.encode)
            decoders[tag] = (field.name, node.decode)
        return Node(members, _union_encoder(encoders, "null" in members), _union_decoder(decoders, list(encoders)))

    def _typed(self, avro: AvroType, schema: Schema) -> Node:
        """Return the node of a type that is no union, for values that are not null."""
        if avro.kind == "record":
            return self._named_node(avro, schema, self._record)
        if avro.kind in ("enum", "fixed"):
            return self._named_node(avro, schema, self._enum if avro.kind == "enum" else self._fixed)
        if avro.kind == "map":
            return self._map(avro, schema)
        if avro.kind == "array":
            return self._entries(avro, schema) if schema.type is SchemaType.MAP else self._array(avro, schema)
        return self._primitive(avro, schema)

    def _named_node(self, avro: AvroType, schema: Schema, make: Callable[[AvroType, Schema], Node]) -> Node:
        name = str(avro.name)
        known = self._named.get(name)
        if known is None:
            known = make(avro, schema)
            self._named[name] = known._replace(schema=name)
        return known

    def _record(self, avro: AvroType, schema: Schema) -> Node:
        fields = []
        encoders: list[tuple[str, str, Convert]] = []
        decoders: list[tuple[str, Convert]] = []
        for each, field in zip(avro.fields, schema.fields, strict=True):
            node = self.node(each.type, field.schema)
            fields.append({"name": each.name, "type": node.schema})
            encoders.append((field.name, each.name, node.encode))
            self.changes_values |= field.name != each.name
            if node.decode is not None:
                decoders.append((each.name, node.decode))
        reduced = {"type": "record", "name": avro.name, "fields": fields}
        return Node(
            reduced,
            struct_encoder(encoders, omits_unknown=self._omits_unknown),
            _record_decoder(decoders) if decoders else None,
        )

    def _enum(self, avro: AvroType, schema: Schema) -> Node:
        symbols = frozenset(avro.symbols)

        def encode(value: Any) -> str:
            if not isinstance(value, str) or value not in symbols:
                raise RecordError(f"{shown(value)} is not one of the symbols of {avro.name}: {', '.join(avro.symbols)}")
            return value

        return Node({"type": "enum", "name": avro.name, "symbols": avro.symbols}, encode)

    def _fixed(self, avro: AvroType, schema: Schema) -> Node:
        size, to_plain = avro.size, _to_plain(schema)
        is_number = schema.name == DECIMAL_NAME

        def encode(value: Any) -> bytes:
            data = _number_bytes(schema, value, size) if is_number else connect_value.binary(to_plain(value))
            if len(data) != size:
                raise RecordError(f"A value of {avro.name} must have {size} bytes, but has {len(data)}")
            return data

        return Node({"type": "fixed", "name": avro.name, "size": size}, encode, _from_plain(schema))

    def _map(self, avro: AvroType, schema: Schema) -> Node:
        node = self.node(avro.items, part(schema.value_schema))
        encode, decode = node.encode, node.decode

        def encode_map(value: Any) -> dict[str, Any]:
            return {connect_value.text(key): encode(item) for key, item in connect_value.mapping(value).items()}

        def decode_map(value: Any) -> dict[str, Any]:
            assert decode is not None
            return {key: decode(item) for key, item in value.items()}

        return Node({"type": "map", "values": node.schema}, encode_map, None if decode is None else decode_map)

    def _entries(self, avro: AvroType, schema: Schema) -> Node:
        """Return the node of a map whose keys are no text: an array of records with key and value."""
        if not is_map_entry(avro.items):
            raise RecordError("The newest schema has an array where the value has a map")
        entry = Schema.struct({parsing.KEY: part(schema.key_schema), parsing.VALUE: part(schema.value_schema)})
        if [each.name for each in avro.items.fields] != [parsing.KEY, parsing.VALUE]:
            entry = Schema.struct({parsing.VALUE: part(schema.value_schema), parsing.KEY: part(schema.key_schema)})
        node = self._typed(avro.items, entry)
        encode, decode = node.encode, node.decode

        def encode_map(value: Any) -> list[Any]:
            return [
                encode({parsing.KEY: key, parsing.VALUE: item}) for key, item in connect_value.mapping(value).items()
            ]

        def decode_map(value: Any) -> dict[Any, Any]:
            entries = value if decode is None else map(decode, value)
            return {each[parsing.KEY]: each[parsing.VALUE] for each in entries}

        return Node({"type": "array", "items": node.schema}, encode_map, decode_map)

    def _array(self, avro: AvroType, schema: Schema) -> Node:
        node = self.node(avro.items, part(schema.value_schema))
        encode, decode = node.encode, node.decode

        def encode_array(value: Any) -> list[Any]:
            return list(map(encode, connect_value.items(value)))

        decode_array = None if decode is None else lambda value: list(map(decode, value))
        return Node({"type": "array", "items": node.schema}, encode_array, decode_array)

    def _primitive(self, avro: AvroType, schema: Schema) -> Node:
        check, to_plain = _CHECKS[avro.kind](schema), _to_plain(schema)
        by_fastavro = _READ_BY_FASTAVRO.get(schema.name)
        encode = check if to_plain is _same else lambda value: check(to_plain(value))
        if by_fastavro is not None:
            return Node({"type": avro.kind, "logicalType": by_fastavro}, encode)
        return Node(avro.kind, encode, _from_plain(schema))


def _required(node: Node, schema: Schema) -> Node:
    """Return the node for a place where no null is allowed: a default, if there is one, is written instead."""
    encode, default = node.encode, schema.default

    def encode_required(value: Any) -> Any:
        if value is not None:
            return encode(value)
        if default is not None:
            return encode(default)
        raise RecordError(f"Invalid null value: it is required, and has no default ({schema.type.name})")

    return node._replace(encode=encode_required)


def _union_encoder(encoders: dict[str, tuple[str, str, Convert]], is_optional: bool) -> Convert:
    def encode(value: Any) -> Any:
        given = member_of_union(value, encoders, is_optional=is_optional)
        if given is None:
            return None
        name, item = given
        wrapper, tag, encode_member = encoders[name]
        return (wrapper, {tag: encode_member(item)})

    return encode


def _union_decoder(decoders: dict[str, tuple[str, Convert | None]], fields: list[str]) -> Convert:
    nothing = dict.fromkeys(fields)

    def decode(value: Any) -> Any:
        if value is None:
            return None
        ((tag, item),) = value.items()
        name, decode_member = decoders[tag]
        return {**nothing, name: item if decode_member is None else decode_member(item)}

    return decode


def _record_decoder(decoders: list[tuple[str, Convert]]) -> Convert:
    def decode(value: dict[str, Any]) -> dict[str, Any]:
        for name, decode_field in decoders:
            value[name] = decode_field(value[name])
        return value

    return decode


def _same(value: Any) -> Any:
    return value


def _to_plain(schema: Schema) -> Convert:
    logical = LOGICAL_TYPES.get(schema.name)
    return _same if logical is None else lambda value: logical.to_plain(schema, value)


def _from_plain(schema: Schema) -> Convert | None:
    logical = LOGICAL_TYPES.get(schema.name)
    return None if logical is None else lambda value: logical.from_plain(schema, value)


def _number_bytes(schema: Schema, value: Any, size: int) -> bytes:
    try:
        return unscaled(schema, value).to_bytes(size, "big", signed=True)
    except OverflowError:
        raise RecordError(f"The decimal {value} does not fit {size} bytes") from None


_CHECKS: dict[str, Callable[[Schema], Convert]] = {
    "boolean": lambda schema: connect_value.boolean,
    "int": lambda schema: connect_value.integer(schema, 32),
    "long": lambda schema: connect_value.integer(schema, 64),
    "float": lambda schema: connect_value.single,
    "double": lambda schema: connect_value.floating,
    "bytes": lambda schema: connect_value.binary,
    "string": lambda schema: connect_value.text,
}


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
