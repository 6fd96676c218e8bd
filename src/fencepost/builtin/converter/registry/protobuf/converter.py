"""ProtobufConverter: values as Protobuf messages, with their schemas in a schema registry.

Before a message is its place in the file: the index of each message in the one around it.
"""

from collections.abc import Sequence
from typing import Any

from fencepost.api import RecordError, Schema
from fencepost.builtin.converter.registry.client import WrittenSchema
from fencepost.builtin.converter.registry.converter import Extra, RegistryConverter
from fencepost.builtin.converter.registry.format import Format, Reader, Referenced, Writer, Written
from fencepost.builtin.converter.registry.protobuf.codec import FIRST_MESSAGE, MessageCodec
from fencepost.builtin.converter.registry.protobuf.compiling import compiled, pool_of, source
from fencepost.builtin.converter.registry.protobuf.from_connect import from_connect
from fencepost.builtin.converter.registry.protobuf.settings import ProtobufMapping
from fencepost.builtin.converter.registry.protobuf.to_connect import to_connect

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
