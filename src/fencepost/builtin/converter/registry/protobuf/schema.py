"""Protobuf files of Connect's schemas, with a message for each struct, and the reverse, as Confluent's ProtobufData
maps.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.connect_value import part, scale_of
from fencepost.builtin.converter.registry.protobuf import settings
from fencepost.builtin.converter.registry.protobuf.settings import ProtobufMapping
from fencepost.record import Field
from fencepost.record import schema as record_schema
from fencepost.record.type_table import DECIMAL_NAME

_SCALARS = {
    SchemaType.INT8: "int32",
    SchemaType.INT16: "int32",
    SchemaType.INT32: "int32",
    SchemaType.INT64: "int64",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "bool",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_SMALL = {SchemaType.INT8: "int8", SchemaType.INT16: "int16"}
_LOGICAL = {
    DECIMAL_NAME: (settings.DECIMAL, "confluent/type/decimal.proto"),
    record_schema.DATE.name: (settings.DATE, "google/type/date.proto"),
    record_schema.TIME.name: (settings.TIME, "google/type/timeofday.proto"),
    record_schema.TIMESTAMP.name: (settings.TIMESTAMP, "google/protobuf/timestamp.proto"),
}
_KEYS = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, SchemaType.STRING, SchemaType.BOOLEAN)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ENTRY = "Entry"
_NUMBERS = (19000, 19999)  # which Protobuf keeps for itself


def is_union(schema: Schema) -> bool:
    """Return whether a struct is a oneof in Protobuf."""
    return schema.type is SchemaType.STRUCT and (schema.name or "").startswith(settings.UNION)


def is_native_map(schema: Schema) -> bool:
    """Return whether a map of Protobuf can hold the values of a map schema."""
    key, value = part(schema.key_schema), part(schema.value_schema)
    is_single = value.type not in (SchemaType.ARRAY, SchemaType.MAP) and not is_union(value)
    return key.type in _KEYS and key.name not in _LOGICAL and not key.is_optional and is_single


def entry_schema(schema: Schema) -> Schema:
    """Return the struct of a map's entry, for a map that is a list of entries."""
    return Schema.struct({"key": part(schema.key_schema), "value": part(schema.value_schema)})


def oneof_name(field: Field) -> str:
    """Return the name of the oneof for a struct's field."""
    return (field.schema.name or "").removeprefix(settings.UNION).removeprefix(".") or field.name


def field_name(name: str, mapping: ProtobufMapping) -> str:
    """Return the name of a field. Raises RecordError for one that Protobuf does not allow."""
    if _NAME.fullmatch(name):
        return name
    if mapping.scrub_invalid_names:
        scrubbed = re.sub(r"[^A-Za-z0-9_]", "_", name)
        return scrubbed if _NAME.fullmatch(scrubbed) else f"x{scrubbed}"
    raise RecordError(
        f"Protobuf does not allow the name {name!r}: rename it, for example with ReplaceField, or set "
        "scrub.invalid.names=true"
    )


def from_connect(schema: Schema, mapping: ProtobufMapping) -> Any:
    """Return the FileDescriptorProto of a struct. Raises RecordError for a schema that Protobuf cannot express."""
    from google.protobuf import descriptor_pb2

    if schema.type is not SchemaType.STRUCT or is_union(schema):
        raise RecordError(
            f"Protobuf has messages only, but the schema is {schema.type.name}: write structs, for example with "
            "HoistField, or use another converter, such as StringConverter for keys"
        )
    file = descriptor_pb2.FileDescriptorProto(name="default", syntax="proto3")
    package, _, name = (schema.name or f"{settings.DEFAULT_NAME}1").rpartition(".")
    file.package = ".".join(field_name(each, mapping) for each in package.split(".")) if package else ""
    _Writer(file, mapping).message(file.message_type.add(name=field_name(name, mapping)), schema)
    return file


class _Writer:
    def __init__(self, file: Any, mapping: ProtobufMapping) -> None:
        self._file = file
        self._mapping = mapping
        self._enums: list[tuple[Any, Any, Schema]] = []  # the message and field of each that is still to be made
        self._fields: list[set[str]] = []  # the names of the fields of each message that is being made

    def message(self, message: Any, schema: Schema) -> None:
        """Fill a message with a struct's fields."""
        numbers = _numbers(schema)
        self._fields.append({field_name(each, self._mapping) for each in _names_of(schema)})
        for field in schema.fields:
            if is_union(field.schema):
                self._oneof(message, field, numbers)
                continue
            made = message.field.add(name=field_name(field.name, self._mapping), number=numbers.of(field), label=1)
            self._type(message, made, field.schema)
        names = [each.name for each in message.field]
        if len(set(names)) != len(names):
            raise RecordError(f"Two fields of {message.name} have the same name in Protobuf: rename one")
        for field in message.field:  # after the real ones, as Protobuf requires
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
        mine = [each for each in self._enums if each[0] is message]
        self._enums = [each for each in self._enums if each[0] is not message]
        for _, made, each in mine:  # when all other names of the message are known
            self._enum(message, made, each)
        self._fields.pop()

    def _oneof(self, message: Any, field: Field, numbers: "_Numbers") -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=field_name(oneof_name(field), self._mapping))
        for member in field.schema.fields:
            made = message.field.add(
                name=field_name(member.name, self._mapping), number=numbers.of(member), label=1, oneof_index=index
            )
            if member.schema.type in (SchemaType.ARRAY, SchemaType.MAP):
                raise RecordError(f"A member of a oneof cannot be repeated, but {member.name} is an array or a map")
            self._bare(message, made, member.schema)

    def _type(self, message: Any, made: Any, schema: Schema) -> None:
        if schema.type is SchemaType.MAP:
            made.label = 3
            self._map(message, made, schema)
        elif schema.type is SchemaType.ARRAY:
            items = part(schema.value_schema)
            made.label = 3
            if items.type in (SchemaType.ARRAY, SchemaType.MAP) or is_union(items):
                raise RecordError(f"Protobuf has no arrays of arrays, maps or unions, but {made.name} is one")
            self._bare(message, made, items)
        else:
            self._bare(message, made, schema)
            made.proto3_optional = schema.is_optional and made.type != 11 and self._mapping.optional_for_nullables

    def _bare(self, message: Any, made: Any, schema: Schema) -> None:
        logical = _LOGICAL.get(schema.name)
        if logical is not None:
            made.type, made.type_name = 11, f".{logical[0]}"
            self._import(logical[1])
            if schema.name == DECIMAL_NAME:
                self._keep(made, "scale", str(scale_of(schema)))
        elif schema.type is SchemaType.STRUCT:
            name = _short(schema, made)
            self.message(message.nested_type.add(name=self._free(message, name)), schema)
            made.type, made.type_name = 11, message.nested_type[-1].name
        elif schema.type is SchemaType.STRING and settings.ENUM in dict(schema.parameters):
            made.type = 14
            self._enums.append((message, made, schema))
        else:
            made.type = type(made).Type.Value(f"TYPE_{_SCALARS[schema.type].upper()}")
            if schema.type in _SMALL:
                self._keep(made, settings.CONNECT_TYPE, _SMALL[schema.type])

    def _import(self, file: str) -> None:
        if file not in self._file.dependency:
            self._file.dependency.append(file)

    def _keep(self, made: Any, name: str, value: str) -> None:
        from confluent_kafka.schema_registry.confluent import meta_pb2

        made.options.Extensions[meta_pb2.field_meta].params[name] = value
        self._import("confluent/meta.proto")

    def _map(self, message: Any, made: Any, schema: Schema) -> None:
        """Make a map, or a list of entries where Protobuf has no such map."""
        entry = message.nested_type.add(name=self._free(message, camel(made.name) + _ENTRY))
        made.type, made.type_name = 11, entry.name
        if not is_native_map(schema):
            self.message(entry, entry_schema(schema))
            return
        entry.options.map_entry = True
        for number, (name, each) in enumerate((("key", schema.key_schema), ("value", schema.value_schema)), 1):
            self._bare(message, entry.field.add(name=name, number=number, label=1), part(each))

    def _enum(self, message: Any, made: Any, schema: Schema) -> None:
        parameters = dict(schema.parameters)
        name = field_name(parameters[settings.ENUM].rpartition(".")[2] or camel(made.name), self._mapping)
        prefix = f"{settings.ENUM}."
        symbols = {k.removeprefix(prefix): _number(v) for k, v in parameters.items() if k.startswith(prefix)}
        if 0 not in symbols.values():  # the first value of proto3
            symbols[f"{name.upper()}_UNSPECIFIED"] = 0
        values = sorted(symbols.items(), key=lambda pair: pair[1] != 0)
        for known in message.enum_type:
            if known.name == name and [(each.name, each.number) for each in known.value] == values:
                made.type_name = known.name
                return
        holder, path = message, ""
        if not symbols.keys().isdisjoint(_names_in(message)):  # values are names of the message around their enum
            holder = message.nested_type.add(name=self._free(message, f"{name}Values"))
            path = f"{holder.name}."
        enum = holder.enum_type.add(name=self._free(holder, name))
        if len(set(symbols.values())) < len(symbols):
            enum.options.allow_alias = True
        for symbol, number in values:
            enum.value.add(name=symbol, number=number)
        made.type_name = path + enum.name

    def _free(self, message: Any, name: str) -> str:
        taken = self._fields[-1] | {each.name for each in (*message.nested_type, *message.enum_type)}
        found, count = name, 1
        while found in taken:
            count += 1
            found = f"{name}{count}"
        return found


class _Numbers:
    """The numbers of a message's fields: those of their tags, and free ones for the others."""

    def __init__(self, tagged: dict[int, int]) -> None:
        self._tagged = tagged
        self._next = 1

    def of(self, field: Field) -> int:
        given = _tag(field)
        if given is not None and self._tagged.get(given) == 1:
            return given
        while self._next in self._tagged or _NUMBERS[0] <= self._next <= _NUMBERS[1]:
            self._next += 1
        self._next += 1
        return self._next - 1


def _numbers(schema: Schema) -> _Numbers:
    tagged: dict[int, int] = {}
    for field in schema.fields:
        for each in field.schema.fields if is_union(field.schema) else (field,):
            tag = _tag(each)
            if tag is not None:
                tagged[tag] = tagged.get(tag, 0) + 1
    return _Numbers(tagged)


def _names_of(schema: Schema) -> Iterator[str]:
    for field in schema.fields:
        if is_union(field.schema):
            yield oneof_name(field)
            yield from (member.name for member in field.schema.fields)
        else:
            yield field.name


def _names_in(message: Any) -> set[str]:
    kinds = (message.field, message.oneof_decl, message.nested_type, message.enum_type)
    values = [value for enum in message.enum_type for value in enum.value]
    return {each.name for each in (*values, *(one for kind in kinds for one in kind))}


def _tag(field: Field) -> int | None:
    text = dict(field.schema.parameters).get(settings.TAG, "")
    return int(text) if text.isdigit() and 0 < int(text) < 1 << 29 else None


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise RecordError(f"The parameters of an enum have {text!r} where its number should be") from None


def _short(schema: Schema, made: Any) -> str:
    name = (schema.name or "").rpartition(".")[2]
    return name if _NAME.fullmatch(name) else camel(made.name)


def camel(name: str) -> str:
    """Return the name of a message for a field's values."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_")) or "Field"


_SCALAR_TYPES = {
    1: SchemaType.FLOAT64, 2: SchemaType.FLOAT32, 3: SchemaType.INT64, 4: SchemaType.INT64, 5: SchemaType.INT32,
    6: SchemaType.INT64, 7: SchemaType.INT64, 8: SchemaType.BOOLEAN, 9: SchemaType.STRING, 12: SchemaType.BYTES,
    13: SchemaType.INT64, 15: SchemaType.INT32, 16: SchemaType.INT64, 17: SchemaType.INT32, 18: SchemaType.INT64,
}  # fmt: skip
_SMALL_TYPES = {"int8": SchemaType.INT8, "int16": SchemaType.INT16}
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
            return Schema(
                _SMALL_TYPES.get(_parameters_of(field).get(settings.CONNECT_TYPE, "")) or _SCALAR_TYPES[field.type]
            )
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
