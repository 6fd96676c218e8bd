"""ProtobufConverter: values as Protobuf messages, with their schemas in a schema registry.

Before a message is its place in the file: the index of each message in the one around it. Structs become messages, and
the reverse, by functions that are compiled once for each message.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter import connect_value
from fencepost.builtin.converter.connect_value import LOGICAL_TYPES, member_of_union, part, scale_of, shown
from fencepost.builtin.converter.registry.client import WrittenSchema
from fencepost.builtin.converter.registry.converter import Extra, RegistryConverter
from fencepost.builtin.converter.registry.format import Format, Reader, Referenced, Writer, Written
from fencepost.builtin.converter.registry.protobuf import settings
from fencepost.builtin.converter.registry.protobuf.compiling import compiled, pool_of, source
from fencepost.builtin.converter.registry.protobuf.schema import (
    entry_schema,
    field_name,
    from_connect,
    is_entries,
    is_map,
    is_union,
    oneof_name,
    real_oneofs,
    to_connect,
    union_name,
)
from fencepost.builtin.converter.registry.protobuf.settings import ProtobufMapping
from fencepost.record import Field
from fencepost.record.java_value import moment
from fencepost.record.literal import MOST_DIGITS

Fill = Callable[[Any, Any], None]
"""Writes a value into a message."""
Get = Callable[[Any], Any]
"""Reads a value out of a message."""
Convert = Callable[[Any], Any]

FIRST_MESSAGE = b"\0"
"""The place of the first message of a file."""
_MESSAGE, _ENUM = 11, 14
_SIGN, _RANGE = 1 << 63, 1 << 64
_MS_NS = 1_000_000


class MessageCodec:
    """Writes and reads one message. `schema` is Connect's schema of the descriptor, `lead` the message's place."""

    def __init__(self, message: Any, schema: Schema, mapping: ProtobufMapping, *, omits_unknown: bool = False) -> None:
        from google.protobuf.message import DecodeError
        from google.protobuf.message_factory import GetMessageClass

        self._unreadable = (DecodeError, ValueError, OverflowError)  # an import for each value would cost time
        self.schema = schema
        self.lead = FIRST_MESSAGE
        self._class = GetMessageClass(message)
        self._fill = _filler(message, schema, mapping, omits_unknown)
        self._get = _getter(message, schema, mapping)

    def encode(self, value: Any) -> bytes:
        """Return the bytes of a struct. Raises RecordError if it does not fit."""
        message = self._class()
        try:
            self._fill(message, value)
            written: bytes = message.SerializeToString(deterministic=True)
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise RecordError(f"Converting to Protobuf failed: {type(error).__name__}: {str(error)[:200]}") from error
        return written

    def encode_all(self, values: Sequence[Any], lead: bytes) -> list[bytes]:
        return [lead + self.encode(value) for value in values]

    def decode(self, data: bytes) -> Any:
        """Return the struct. Raises RecordError if the bytes are no such message."""
        try:
            return self._get(self._class.FromString(data))
        except self._unreadable as error:
            raise RecordError(f"Converting from Protobuf failed: {type(error).__name__}: {str(error)[:200]}") from error


def _filler(message: Any, schema: Schema, mapping: ProtobufMapping, omits_unknown: bool) -> Fill:
    fields = message.fields_by_name
    fills: dict[str, Fill] = {}
    for field in schema.fields:
        if is_union(field.schema):
            fills[field.name] = _union_filler(message, field, mapping, omits_unknown)
        else:
            fills[field.name] = _field_filler(fields[field_name(field.name, mapping)], field, mapping, omits_unknown)

    def fill(target: Any, value: Any) -> None:
        given = connect_value.mapping(value)
        if not fills.keys() >= given.keys() and not omits_unknown:
            raise RecordError(f"{sorted(set(given) - fills.keys())[0]} is not a valid field name")
        for name, fill_field in fills.items():
            try:
                fill_field(target, given.get(name))
            except RecordError as error:
                raise RecordError(f"{name}: {error}") from error

    return fill


def _field_filler(descriptor: Any, field: Field, mapping: ProtobufMapping, omits_unknown: bool) -> Fill:
    schema, name = field.schema, descriptor.name
    fill = _present_filler(descriptor, schema, mapping, omits_unknown)

    def fill_field(target: Any, value: Any) -> None:
        value = schema.default if value is None else value
        if value is not None:
            fill(target, value)
        elif not schema.is_optional:
            raise RecordError(f"Invalid null value: {name} is required, and has no default")

    return fill_field


def _present_filler(descriptor: Any, schema: Schema, mapping: ProtobufMapping, omits_unknown: bool) -> Fill:
    name = descriptor.name
    if is_map(descriptor):
        return _map_filler(descriptor, schema, mapping, omits_unknown)
    if is_entries(descriptor):
        fill = _filler(descriptor.message_type, entry_schema(schema), mapping, omits_unknown)

        def fill_entries(target: Any, value: Any) -> None:
            for key, item in connect_value.mapping(value).items():
                fill(getattr(target, name).add(), {"key": key, "value": item})

        return fill_entries
    if descriptor.is_repeated:
        return _array_filler(descriptor, part(schema.value_schema), mapping, omits_unknown)
    if descriptor.type == _MESSAGE:
        fill_message = _message_filler(descriptor, schema, mapping, omits_unknown)

        def fill_one(target: Any, value: Any) -> None:
            getattr(target, name).SetInParent()
            fill_message(getattr(target, name), value)

        return fill_one
    convert = _to_scalar(descriptor, schema)
    return lambda target, value: setattr(target, name, convert(value))


def _array_filler(descriptor: Any, items: Schema, mapping: ProtobufMapping, omits_unknown: bool) -> Fill:
    name = descriptor.name
    if descriptor.type != _MESSAGE:
        convert = _to_scalar(descriptor, items)
        return lambda target, value: getattr(target, name).extend(map(convert, connect_value.items(value)))
    fill = _message_filler(descriptor, items, mapping, omits_unknown)

    def fill_items(target: Any, value: Any) -> None:
        for item in connect_value.items(value):
            fill(getattr(target, name).add(), item)

    return fill_items


def _map_filler(descriptor: Any, schema: Schema, mapping: ProtobufMapping, omits_unknown: bool) -> Fill:
    name, entry = descriptor.name, descriptor.message_type.fields_by_name
    to_key = _to_scalar(entry["key"], part(schema.key_schema))
    values = part(schema.value_schema)
    if entry["value"].type != _MESSAGE:
        to_value = _to_scalar(entry["value"], values)

        def fill_scalars(target: Any, value: Any) -> None:
            getattr(target, name).update({to_key(k): to_value(v) for k, v in connect_value.mapping(value).items()})

        return fill_scalars
    fill = _message_filler(entry["value"], values, mapping, omits_unknown)

    def fill_messages(target: Any, value: Any) -> None:
        for key, item in connect_value.mapping(value).items():
            fill(getattr(target, name)[to_key(key)], item)

    return fill_messages


def _union_filler(message: Any, field: Field, mapping: ProtobufMapping, omits_unknown: bool) -> Fill:
    fields = message.fields_by_name
    members = {
        each.name: _present_filler(fields[field_name(each.name, mapping)], each.schema, mapping, omits_unknown)
        for each in field.schema.fields
    }

    def fill(target: Any, value: Any) -> None:
        given = member_of_union(value, members, is_optional=field.schema.is_optional)
        if given is not None:
            name, item = given
            members[name](target, item)

    return fill


def _message_filler(descriptor: Any, schema: Schema, mapping: ProtobufMapping, omits_unknown: bool) -> Fill:
    name = descriptor.message_type.full_name
    logical = _LOGICAL_FILLERS.get(name) if schema.type is not SchemaType.STRUCT else None
    if logical is not None:
        return lambda target, value: logical(target, schema, value)
    if schema.type is not SchemaType.STRUCT:
        raise RecordError(f"{descriptor.full_name} is the message {name}, but the value is {schema.type.name}")
    return _filler(descriptor.message_type, schema, mapping, omits_unknown)


def _to_scalar(descriptor: Any, schema: Schema) -> Convert:
    kind = schema.type
    if descriptor.type == _ENUM:
        return _to_enum(descriptor.enum_type, schema)
    if kind is SchemaType.STRING:
        return connect_value.text
    if kind is SchemaType.BYTES:
        return connect_value.binary
    if kind is SchemaType.BOOLEAN:
        return connect_value.boolean
    if kind in (SchemaType.FLOAT32, SchemaType.FLOAT64):
        return connect_value.floating
    check = connect_value.integer(schema, 64)
    return (lambda value: check(value) % _RANGE) if descriptor.type in (4, 6) else check  # unsigned, as in Java


def _to_enum(enum: Any, schema: Schema) -> Convert:
    if schema.type is not SchemaType.STRING:
        return connect_value.integer(schema, 32)
    numbers = {each.name: each.number for each in enum.values}

    def convert(value: Any) -> int:
        if value not in numbers:
            raise RecordError(f"{shown(value)} is not one of the values of {enum.full_name}: {', '.join(numbers)}")
        found: int = numbers[value]
        return found

    return convert


def _getter(message: Any, schema: Schema, mapping: ProtobufMapping) -> Get:
    oneofs = {union_name(each, mapping): each for each in real_oneofs(message)}
    fields = message.fields_by_name
    gets: list[tuple[str, Get]] = []
    for field in schema.fields:
        if is_union(field.schema):
            oneof = oneofs.get(field.name) or message.oneofs_by_name[field_name(oneof_name(field), mapping)]
            gets.append((field.name, _union_getter(oneof, field.schema, mapping)))
        else:
            gets.append((field.name, _field_getter(fields[field_name(field.name, mapping)], field.schema, mapping)))
    return lambda found: {name: get(found) for name, get in gets}


def _union_getter(oneof: Any, schema: Schema, mapping: ProtobufMapping) -> Get:
    by_name = {each.name: each for each in oneof.fields}
    gets = {
        field_name(each.name, mapping): (
            each.name,
            _field_getter(by_name[field_name(each.name, mapping)], each.schema, mapping),
        )
        for each in schema.fields
    }
    nothing = dict.fromkeys(each.name for each in schema.fields)

    def get(found: Any) -> Any:
        which = found.WhichOneof(oneof.name)
        if which is None:
            return None
        name, get_member = gets[which]
        return {**nothing, name: get_member(found)}

    return get


def _field_getter(descriptor: Any, schema: Schema, mapping: ProtobufMapping) -> Get:
    name = descriptor.name
    if is_map(descriptor):
        entry = descriptor.message_type.fields_by_name
        to_key = _from_scalar(entry["key"], part(schema.key_schema)) or _same
        to_value = _from_value(entry["value"], part(schema.value_schema), mapping) or _same
        return lambda found: {to_key(k): to_value(v) for k, v in getattr(found, name).items()}
    if is_entries(descriptor):
        get = _getter(descriptor.message_type, entry_schema(schema), mapping)
        return lambda found: {each["key"]: each["value"] for each in map(get, getattr(found, name))}
    if descriptor.is_repeated:
        convert = _from_value(descriptor, part(schema.value_schema), mapping)
        if convert is None:
            return lambda found: list(getattr(found, name))
        return lambda found: list(map(convert, getattr(found, name)))
    one = _from_value(descriptor, schema, mapping) or _same
    if not descriptor.has_presence or descriptor.is_required:
        return lambda found: one(getattr(found, name))
    return lambda found: one(getattr(found, name)) if found.HasField(name) else None


def _from_value(descriptor: Any, schema: Schema, mapping: ProtobufMapping) -> Convert | None:
    if descriptor.type != _MESSAGE:
        return _from_scalar(descriptor, schema)
    logical = _LOGICAL_GETTERS.get(descriptor.message_type.full_name) if schema.type is not SchemaType.STRUCT else None
    return logical or _getter(descriptor.message_type, schema, mapping)


def _from_scalar(descriptor: Any, schema: Schema) -> Convert | None:
    if descriptor.type == _ENUM and schema.type is SchemaType.STRING:
        enum = descriptor.enum_type
        names = {each.number: each.name for each in reversed(enum.values)}
        return lambda number: names.get(number) or f"UNKNOWN_ENUM_VALUE_{enum.name}_{number}"
    if descriptor.type in (4, 6):
        return lambda number: number - _RANGE if number >= _SIGN else number
    return None


def _same(value: Any) -> Any:
    return value


def _fill_decimal(target: Any, schema: Schema, value: Any) -> None:
    target.value = LOGICAL_TYPES[schema.name].to_plain(schema, value)
    target.scale = scale_of(schema)
    target.precision = settings.DEFAULT_PRECISION


def _decimal(found: Any) -> Decimal:
    number = int.from_bytes(found.value, "big", signed=True)
    if abs(found.scale) > MOST_DIGITS or len(found.value) > MOST_DIGITS // 3:
        raise ValueError(f"a decimal with {len(found.value)} bytes and the scale {found.scale}")
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -found.scale))


def _plain(schema: Schema, value: Any) -> int:
    found: int = LOGICAL_TYPES[schema.name].to_plain(schema, value)
    return found


def _fill_date(target: Any, schema: Schema, value: Any) -> None:
    day = LOGICAL_TYPES[schema.name].from_plain(schema, _plain(schema, value))
    target.year, target.month, target.day = day.year, day.month, day.day


def _fill_time(target: Any, schema: Schema, value: Any) -> None:
    seconds, ms = divmod(_plain(schema, value), 1000)
    target.hours, target.minutes = seconds // 3600, seconds // 60 % 60
    target.seconds, target.nanos = seconds % 60, ms * _MS_NS


def _fill_timestamp(target: Any, schema: Schema, value: Any) -> None:
    seconds, ms = divmod(_plain(schema, value), 1000)
    target.seconds, target.nanos = seconds, ms * _MS_NS


_LOGICAL_FILLERS: dict[str, Callable[[Any, Schema, Any], None]] = {
    settings.DECIMAL: _fill_decimal,
    settings.DATE: _fill_date,
    settings.TIME: _fill_time,
    settings.TIMESTAMP: _fill_timestamp,
}
_LOGICAL_GETTERS: dict[str, Convert] = {
    settings.DECIMAL: _decimal,
    settings.DATE: lambda found: dt.date(found.year, found.month, found.day),
    settings.TIME: lambda found: dt.time(found.hours, found.minutes, found.seconds, found.nanos // _MS_NS * 1000),
    settings.TIMESTAMP: lambda found: moment(found.seconds * 1000 + found.nanos // _MS_NS),
}


_MOST_INDEXES, _MOST_BITS = 100, 35


class ProtobufFormat(ProtobufMapping, Format):
    """Protobuf, mapped as the settings say."""

    def written(self, schema: Schema) -> Written:
        file = from_connect(schema, self)
        try:
            descriptor = pool_of([file]).FindFileByName(file.name)
        except (TypeError, KeyError, ValueError) as error:
            raise RecordError(f"The schema cannot be expressed in Protobuf: {error}") from error
        message = _messages(descriptor)[0]
        return Written(WrittenSchema("PROTOBUF", source(file)), message.full_name, MessageCodec(message, schema, self))

    def rewritten(self, schema: WrittenSchema, referenced: Referenced, derived: Written, *, is_strict: bool) -> Writer:
        messages = _messages(compiled(schema, referenced))
        found = next((each for each in messages if each.full_name == derived.name), messages[0])
        codec = MessageCodec(found, to_connect(found, self), self, omits_unknown=not is_strict)
        codec.lead = place_of([messages.index(found)])
        return codec

    def reader(self, schema: WrittenSchema, referenced: Referenced, version: int | None) -> Reader:
        return _MessageReader(compiled(schema, referenced), self, version)

    def name_of(self, schema: WrittenSchema, referenced: Referenced) -> str | None:
        name: str = _messages(compiled(schema, referenced))[0].full_name
        return name


class ProtobufConverter(RegistryConverter, ProtobufFormat):
    """Writes and reads Protobuf as Confluent's converter of that name does."""

    extra = Extra("protobuf", ("google.protobuf", "google.type", "grpc_tools"))
    type = "PROTOBUF"


class _MessageReader:
    def __init__(self, file: Any, mapping: ProtobufMapping, version: int | None) -> None:
        self._file = file
        self._mapping = mapping
        self._version = version
        self._codecs: dict[tuple[int, ...], MessageCodec] = {}

    def read(self, data: bytes, start: int) -> tuple[Schema, Any]:
        place, begin = read_place(data, start)
        codec = self._codec(place)
        return codec.schema, codec.decode(data[begin:])

    def read_all(self, column: Sequence[bytes], start: int) -> tuple[Schema, list[Any]] | None:
        places = [read_place(data, start) for data in column]
        if len({place for place, _ in places}) != 1:
            return None
        codec = self._codec(places[0][0])
        return codec.schema, [codec.decode(data[begin:]) for data, (_, begin) in zip(column, places, strict=True)]

    def _codec(self, place: tuple[int, ...]) -> MessageCodec:
        found = self._codecs.get(place)
        if found is None:
            message = _message_at(self._file, place)
            schema = to_connect(message, self._mapping, self._version)
            found = self._codecs[place] = MessageCodec(message, schema, self._mapping)
        return found


def place_of(indexes: Sequence[int]) -> bytes:
    """Return the bytes that name a message; the first message of a file is a single zero."""
    if list(indexes) == [0]:
        return FIRST_MESSAGE
    return b"".join(map(_varint, (len(indexes), *indexes)))


def read_place(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes before a payload, and where the payload begins. Raises RecordError."""
    count, at = _read_varint(data, start)
    if count == 0:
        return (0,), at
    if not 0 < count <= _MOST_INDEXES:
        raise RecordError(f"The place of a Protobuf message has {count} indexes")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(data, at)
        indexes.append(index)
    return tuple(indexes), at


def _varint(number: int) -> bytes:
    zigzag, out = number << 1, bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, _MOST_BITS, 7):
        if at >= len(data):
            break
        byte, at = data[at], at + 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise RecordError("The bytes end before the place of the Protobuf message does")


def _messages(file: Any) -> list[Any]:
    from google.protobuf import descriptor_pb2

    written = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(written)
    if not written.message_type:
        raise RecordError("The Protobuf schema has no message")
    return [file.message_types_by_name[each.name] for each in written.message_type]


def _message_at(file: Any, place: tuple[int, ...]) -> Any:
    messages = _messages(file)
    for depth, index in enumerate(place):
        if not 0 <= index < len(messages):
            raise RecordError(
                f"The schema has no Protobuf message at {list(place)}: it was written with another schema"
            )
        if depth == len(place) - 1:
            return messages[index]
        messages = list(messages[index].nested_types)
    raise RecordError("The place of a Protobuf message is empty")
