"""The Protobuf file of a Connect schema, as Confluent's ProtobufData makes it: a message for each struct."""

import re
from collections.abc import Iterator
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.compound import part
from fencepost.builtin.converter.logical import scale_of
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
