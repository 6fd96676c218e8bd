"""Connect's schema of a Protobuf message, as Confluent's ProtobufData makes it."""

from dataclasses import replace
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.registry.protobuf import settings
from fencepost.builtin.converter.registry.protobuf.from_connect import camel
from fencepost.builtin.converter.registry.protobuf.settings import ProtobufMapping
from fencepost.record import Field
from fencepost.record import schema as record_schema
from fencepost.record.type_table import DECIMAL_NAME

_SCALARS = {
    1: SchemaType.FLOAT64, 2: SchemaType.FLOAT32, 3: SchemaType.INT64, 4: SchemaType.INT64, 5: SchemaType.INT32,
    6: SchemaType.INT64, 7: SchemaType.INT64, 8: SchemaType.BOOLEAN, 9: SchemaType.STRING, 12: SchemaType.BYTES,
    13: SchemaType.INT64, 15: SchemaType.INT32, 16: SchemaType.INT64, 17: SchemaType.INT32, 18: SchemaType.INT64,
}  # fmt: skip
_SMALL = {"int8": SchemaType.INT8, "int16": SchemaType.INT16}
LOGICAL = {
    settings.DATE: record_schema.DATE,
    settings.TIME: record_schema.TIME,
    settings.TIMESTAMP: record_schema.TIMESTAMP,
}
_ENUM_TYPE, _MESSAGE_TYPE, _GROUP_TYPE = 14, 11, 10


def to_connect(message: Any, mapping: ProtobufMapping, version: int | None = None) -> Schema:
    """Return the schema of a message's descriptor. Raises RecordError for one that Connect cannot express."""
    schema = _Reader(mapping).struct(message)
    return replace(schema, version=version)


def real_oneofs(message: Any) -> list[Any]:
    """Return the oneofs of a message that its author wrote."""
    return [each for each in message.oneofs if len(each.fields) != 1 or each.name != f"_{each.fields[0].name}"]


def union_name(oneof: Any, mapping: ProtobufMapping) -> str:
    """Return the name of the struct's field that a oneof becomes."""
    return f"{oneof.name}_{oneof.index}" if mapping.generate_index_for_unions else str(oneof.name)


def is_map(field: Any) -> bool:
    """Return whether a field is a map."""
    return bool(field.type == _MESSAGE_TYPE and field.is_repeated and field.message_type.GetOptions().map_entry)


def is_entries(field: Any) -> bool:
    """Return whether a field is a list of entries: a map whose keys Protobuf does not allow."""
    if field.type != _MESSAGE_TYPE or not field.is_repeated or is_map(field):
        return False
    entry = field.message_type
    return entry.name == f"{camel(field.name)}Entry" and [each.name for each in entry.fields] == ["key", "value"]


class _Reader:
    def __init__(self, mapping: ProtobufMapping) -> None:
        self._mapping = mapping
        self._open: list[str] = []

    def struct(self, message: Any) -> Schema:
        name = message.full_name
        if name in self._open:
            raise RecordError(
                f"The Protobuf message {name} contains itself, which a schema of Kafka Connect cannot: "
                f"{' > '.join([*self._open[self._open.index(name) :], name])}. Change the schema, or use "
                "ByteArrayConverter to pass the bytes on as they are"
            )
        self._open.append(name)
        oneofs = real_oneofs(message)
        unions = [Field(union_name(each, self._mapping), self._union(each)) for each in oneofs]
        fields = [Field(each.name, self.field(each)) for each in message.fields if each.containing_oneof not in oneofs]
        self._open.pop()
        return Schema(SchemaType.STRUCT, name=name, fields=(*unions, *fields))

    def _union(self, oneof: Any) -> Schema:
        fields = {each.name: self.field(each).optional() for each in oneof.fields}
        return Schema.struct(fields, name=f"{settings.UNION}.{oneof.name}", is_optional=True)

    def field(self, field: Any) -> Schema:
        """Return the schema of a field, with its number as the parameter that keeps it."""
        if is_map(field) or is_entries(field):
            by_name = field.message_type.fields_by_name
            key, value = self.bare(by_name["key"]), self.bare(by_name["value"])
            if is_entries(field):
                key, value = self.field(by_name["key"]), self.field(by_name["value"])
            made = Schema(SchemaType.MAP, key_schema=key, value_schema=value, is_optional=True)
        elif field.is_repeated:
            made = Schema(SchemaType.ARRAY, value_schema=self.bare(field), is_optional=True)
        else:
            is_optional = not field.is_required and (self._mapping.optional_for_proto2 or field.has_presence)
            made = replace(self.bare(field), is_optional=is_optional)
        return replace(made, parameters=(*made.parameters, (settings.TAG, str(field.number))))

    def bare(self, field: Any) -> Schema:
        """Return the schema of one value of a field."""
        if field.type == _GROUP_TYPE:
            raise RecordError(f"The Protobuf field {field.full_name} is a group, which is not supported")
        if field.type == _ENUM_TYPE:
            return self._enum(field.enum_type)
        if field.type != _MESSAGE_TYPE:
            return Schema(_SMALL.get(_parameters_of(field).get(settings.CONNECT_TYPE, "")) or _SCALARS[field.type])
        name = field.message_type.full_name
        if name == settings.DECIMAL:
            scale = ("scale", _parameters_of(field).get("scale", "0"))
            return Schema(SchemaType.BYTES, name=DECIMAL_NAME, version=1, parameters=(scale,))
        return LOGICAL.get(name) or self.struct(field.message_type)

    def _enum(self, enum: Any) -> Schema:
        if self._mapping.int_for_enums:
            return Schema(SchemaType.INT32)
        symbols = [(f"{settings.ENUM}.{each.name}", str(each.number)) for each in enum.values]
        return Schema(SchemaType.STRING, parameters=((settings.ENUM, enum.full_name), *symbols))


def _parameters_of(field: Any) -> dict[str, str]:
    """Return what Confluent's option says of a field. It is known in the default pool alone."""
    if not field.GetOptions().ByteSize():
        return {}
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from google.protobuf import descriptor_pb2

    options = descriptor_pb2.FieldOptions.FromString(field.GetOptions().SerializeToString())
    return dict(options.Extensions[meta_pb2.field_meta].params)
