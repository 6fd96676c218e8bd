"""The source text of a file of proto3, as it is registered: messages, enums, oneofs, maps, and Confluent's options."""

import json
from collections.abc import Iterator
from typing import Any

_SCALARS = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
_INDENT = "  "


def source(file: Any) -> str:
    """Return the text of a FileDescriptorProto."""
    lines = ['syntax = "proto3";']
    if file.package:
        lines.append(f"package {file.package};")
    lines += [f'import "{name}";' for name in file.dependency]
    for enum in file.enum_type:
        lines += ["", *_enum(enum, "")]
    for message in file.message_type:
        lines += ["", *_message(message, "")]
    for field in file.extension:
        lines += ["", f"extend {field.extendee} {{", _INDENT + _field(field), "}"]
    return "\n".join(lines) + "\n"


def _message(message: Any, indent: str) -> Iterator[str]:
    inner = indent + _INDENT
    yield f"{indent}message {message.name} {{"
    entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    for nested in message.nested_type:
        if nested.name not in entries:
            yield from _message(nested, inner)
    for enum in message.enum_type:
        yield from _enum(enum, inner)
    shown: set[int] = set()
    for field in message.field:
        entry = entries.get(field.type_name.rpartition(".")[2]) if field.label == 3 and field.type == 11 else None
        if entry is not None:
            key, value = entry.field
            yield f"{inner}map<{_type(key)}, {_type(value)}> {field.name} = {field.number}{_options(field)};"
        elif field.HasField("oneof_index") and not field.proto3_optional:
            if field.oneof_index not in shown:
                shown.add(field.oneof_index)
                yield from _oneof(message, field.oneof_index, inner)
        else:
            yield inner + _field(field)
    yield f"{indent}}}"


def _oneof(message: Any, index: int, indent: str) -> Iterator[str]:
    yield f"{indent}oneof {message.oneof_decl[index].name} {{"
    for field in message.field:
        if field.HasField("oneof_index") and field.oneof_index == index:
            yield f"{indent}{_INDENT}{_type(field)} {field.name} = {field.number}{_options(field)};"
    yield f"{indent}}}"


def _field(field: Any) -> str:
    label = "repeated " if field.label == 3 else "optional " if field.proto3_optional else ""
    return f"{label}{_type(field)} {field.name} = {field.number}{_options(field)};"


def _enum(enum: Any, indent: str) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    if enum.options.allow_alias:
        yield f"{indent}{_INDENT}option allow_alias = true;"
    for value in enum.value:
        yield f"{indent}{_INDENT}{value.name} = {value.number};"
    yield f"{indent}}}"


def _type(field: Any) -> str:
    return _SCALARS.get(field.type) or str(field.type_name)


def _options(field: Any) -> str:
    """Return the option in which Confluent's mapping keeps the type of a Connect field."""
    from confluent_kafka.schema_registry.confluent import meta_pb2

    if not field.options.HasExtension(meta_pb2.field_meta):
        return ""
    parameters = field.options.Extensions[meta_pb2.field_meta].params
    pairs = ", ".join(
        f"{{key: {json.dumps(key)}, value: {json.dumps(value)}}}" for key, value in sorted(parameters.items())
    )
    return f" [(confluent.field_meta) = {{params: [{pairs}]}}]" if pairs else ""
