"""Descriptors of a schema's text, compiled by protoc, or of the serialised descriptor that some clients register.

The reverse, too: the source text of a file of proto3, as it is registered, with messages, enums, oneofs, maps, and
Confluent's options.
"""

import base64
import binascii
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fencepost.api import RecordError
from fencepost.builtin.converter.registry.client import WrittenSchema

_MAIN = "fencepost_schema.proto"
_OF_PROTOC = "google/protobuf/"
_LONGEST_S = 60
_MOST_REMEMBERED = 100


def _included() -> Path:
    spec = importlib.util.find_spec("grpc_tools")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "_proto"


def known_files() -> dict[str, Any]:
    """Return the descriptors of the files that every schema may import, by name."""
    from confluent_kafka.schema_registry.confluent import meta_pb2
    from confluent_kafka.schema_registry.confluent.type import decimal_pb2
    from google.protobuf import (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
    from google.type import date_pb2, dayofweek_pb2, money_pb2, timeofday_pb2

    modules = (
        *(descriptor_pb2, any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2),
        *(date_pb2, dayofweek_pb2, money_pb2, timeofday_pb2, meta_pb2, decimal_pb2),
    )
    found = {}
    for module in modules:
        made = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(made)
        found[made.name] = made
    return found


def pool_of(files: list[Any]) -> Any:
    """Return a descriptor pool with these files and those that every schema may import."""
    from google.protobuf import descriptor_pool

    pool = descriptor_pool.DescriptorPool()
    given = {file.name for file in files}
    for file in (*(each for name, each in known_files().items() if name not in given), *files):
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def compiled(schema: WrittenSchema, referenced: Mapping[str, WrittenSchema]) -> Any:
    """Return the file descriptor of a schema. Raises RecordError if it is no Protobuf.

    Those used last are remembered: a reader needs the name of a message first, and topics may share a schema.
    """
    return _compiled((*((name, other.text) for name, other in referenced.items()), (_MAIN, schema.text)))


@lru_cache(_MOST_REMEMBERED)
def _compiled(named: tuple[tuple[str, str], ...]) -> Any:
    """Return the file descriptor of the last text; the others are what it refers to."""
    texts = dict(named)
    serialised = {name: _serialised(name, text) for name, text in texts.items()}
    files = [file for file in serialised.values() if file is not None]
    if len(files) < len(texts):
        files = _by_protoc(texts)
    try:
        return pool_of(files).FindFileByName(_MAIN)
    except (TypeError, KeyError, ValueError) as error:
        raise RecordError(f"The schema is not valid Protobuf: {error}: {texts[_MAIN][:200]}") from error


def _serialised(name: str, text: str) -> Any:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        made = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return None
    made.name = name
    return made


def _by_protoc(texts: Mapping[str, str]) -> list[Any]:
    """Return the descriptors of source texts and of all that they import, those first that others import."""
    from google.protobuf import descriptor_pb2

    with tempfile.TemporaryDirectory(prefix="fencepost-proto-") as directory:
        known = {name: source(file) for name, file in known_files().items() if not name.startswith(_OF_PROTOC)}
        for name, text in {**known, **texts}.items():
            path = Path(directory, name)
            if not path.resolve().is_relative_to(Path(directory).resolve()):
                raise RecordError(f"The Protobuf schema has a reference with the name {name!r}, which is no file name")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        out = Path(directory, "out.bin")
        arguments = [f"-I{directory}", f"-I{_included()}", f"--descriptor_set_out={out}", "--include_imports", _MAIN]
        command = [sys.executable, "-m", "grpc_tools.protoc", *arguments]
        done = subprocess.run(
            command,
            cwd=directory,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_LONGEST_S,
            check=False,
        )
        if done.returncode != 0:
            raise RecordError(f"The schema is not valid Protobuf: {done.stderr.strip()[:600]}")
        return list(descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file)


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
