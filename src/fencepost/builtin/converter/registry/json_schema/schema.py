"""JSON Schemas of Connect's schemas, and the reverse, as Confluent's JsonSchemaData maps them.

A JSON Schema may refer to parts of itself and to other schemas.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.connect_value import part
from fencepost.builtin.converter.registry.client import WrittenSchema
from fencepost.builtin.converter.registry.json_schema.codec import decoder, encoder, has_text_keys, is_union
from fencepost.builtin.converter.registry.settings import (
    ENUM,
    GENERAL_ENUM,
    GENERAL_FIELD,
    GENERAL_UNION,
    INDEX,
    KEY,
    ONE_OF,
    PARAMETERS,
    TYPE,
    VALUE,
    VERSION,
    JsonSchemaMapping,
)
from fencepost.record import Field
from fencepost.record.schema import STRING
from fencepost.record.type_table import DECIMAL_NAME

_MOST_REFERENCES = 100  # one to the next


@dataclass(frozen=True, eq=False)
class Document:
    """A schema's JSON, and the documents that it may refer to by name."""

    root: Any
    others: "Mapping[str, Document]" = field(default_factory=dict)

    @classmethod
    def of(cls, schema: WrittenSchema, referenced: Mapping[str, WrittenSchema]) -> "Document":
        """Return the document of a schema. Raises RecordError if a text is no JSON."""
        others: dict[str, Document] = {}
        for name, other in referenced.items():
            others[name] = cls(_json(other.text), others)
        return cls(_json(schema.text), others)

    def resolved(self, node: Any) -> "tuple[Any, Document]":
        """Return what a node with `$ref` refers to, and the document that it is in. Raises RecordError."""
        document: Document = self
        for _ in range(_MOST_REFERENCES):
            if not isinstance(node, dict) or not isinstance(node.get("$ref"), str):
                return node, document
            node, document = document._target(node["$ref"])
        raise RecordError(f"The JSON Schema refers to itself without a type: {str(node)[:200]}")

    def _target(self, reference: str) -> "tuple[Any, Document]":
        name, _, pointer = reference.partition("#")
        document = self if not name else self._named(name)
        node = document.root
        for step in pointer.split("/")[1:] if pointer else ():
            step = step.replace("~1", "/").replace("~0", "~")
            node = node[int(step)] if isinstance(node, list) and step.isdigit() else _member(node, step, reference)
        return node, document

    def _named(self, name: str) -> "Document":
        if isinstance(self.root, dict) and self.root.get("$id") == name:
            return self
        for known, document in self.others.items():
            if name == known or (isinstance(document.root, dict) and document.root.get("$id") == name):
                return document
        raise RecordError(f"The JSON Schema refers to {name}, which is none of its references in the schema registry")


def _member(node: Any, step: str, reference: str) -> Any:
    if isinstance(node, dict) and step in node:
        return node[step]
    raise RecordError(f"The JSON Schema refers to {reference}, which is not there")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(
            f"The schema is not valid JSON Schema, because it is not JSON ({error}): {text[:200]}"
        ) from error


_SIMPLE: dict[SchemaType, dict[str, Any]] = {
    SchemaType.INT8: {"type": "integer", TYPE: "int8"},
    SchemaType.INT16: {"type": "integer", TYPE: "int16"},
    SchemaType.INT32: {"type": "integer", TYPE: "int32"},
    SchemaType.INT64: {"type": "integer", TYPE: "int64"},
    SchemaType.FLOAT32: {"type": "number", TYPE: "float32"},
    SchemaType.FLOAT64: {"type": "number", TYPE: "float64"},
    SchemaType.BOOLEAN: {"type": "boolean"},
    SchemaType.STRING: {"type": "string"},
    SchemaType.BYTES: {"type": "string", TYPE: "bytes"},
}


def from_connect(schema: Schema, mapping: JsonSchemaMapping) -> dict[str, Any]:
    """Return the JSON of the schema. Raises RecordError for a schema that cannot be expressed."""
    return _type(schema, mapping, is_member=False)


def _type(schema: Schema, mapping: JsonSchemaMapping, *, is_member: bool) -> dict[str, Any]:
    if schema.type is SchemaType.STRUCT and is_union(schema):
        members = [_type(field.schema, mapping, is_member=True) for field in schema.fields]
        return {"oneOf": [{"type": "null"}, *members] if schema.is_optional else members}
    made = _bare(schema, mapping) | _properties(schema, mapping)
    return made if is_member or not schema.is_optional else {"oneOf": [{"type": "null"}, made]}


def _bare(schema: Schema, mapping: JsonSchemaMapping) -> dict[str, Any]:
    if schema.type is SchemaType.ARRAY:
        return {"type": "array", "items": _type(part(schema.value_schema), mapping, is_member=False)}
    if schema.type is SchemaType.MAP:
        return _map(schema, mapping)
    if schema.type is SchemaType.STRUCT:
        return _struct(schema, mapping)
    if schema.name == DECIMAL_NAME and mapping.decimal_format.upper() == "NUMERIC":
        return {"type": "number", TYPE: "bytes"}
    symbols = _symbols(schema, mapping)
    return {"enum": symbols} if symbols else _SIMPLE[schema.type]


def _map(schema: Schema, mapping: JsonSchemaMapping) -> dict[str, Any]:
    values = _type(part(schema.value_schema), mapping, is_member=False)
    if has_text_keys(schema):
        return {"type": "object", TYPE: "map", "additionalProperties": values}
    properties = {
        KEY: {**_type(part(schema.key_schema), mapping, is_member=False), INDEX: 0},
        VALUE: {**values, INDEX: 1},
    }
    return {"type": "array", TYPE: "map", "items": {"type": "object", "properties": properties}}


def _struct(schema: Schema, mapping: JsonSchemaMapping) -> dict[str, Any]:
    properties = {
        field.name: {**_type(field.schema, mapping, is_member=False), INDEX: index}
        for index, field in enumerate(schema.fields)
    }
    made: dict[str, Any] = {"type": "object", "properties": properties}
    if not mapping.object_additional_properties:
        made["additionalProperties"] = False
    required = [field.name for field in schema.fields if not field.schema.is_optional]
    if mapping.use_optional_for_nonrequired and required:
        made["required"] = required
    return made


def _symbols(schema: Schema, mapping: JsonSchemaMapping) -> list[str]:
    parameter = GENERAL_ENUM if mapping.generalized_sum_type_support else ENUM
    prefix = f"{parameter}."
    if schema.type is not SchemaType.STRING or parameter not in dict(schema.parameters):
        return []
    return [key.removeprefix(prefix) for key, _ in schema.parameters if key.startswith(prefix)]


def _properties(schema: Schema, mapping: JsonSchemaMapping) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if schema.name is not None:
        found["title"] = schema.name
    if schema.doc is not None:
        found["description"] = schema.doc
    if schema.default is not None:
        found["default"] = encoder(replace(schema, default=None), mapping)(schema.default)
    if schema.version is not None:
        found[VERSION] = schema.version
    parameters = {key: value for key, value in schema.parameters if not key.startswith((ENUM, GENERAL_ENUM))}
    if parameters:
        found[PARAMETERS] = parameters
    return found


_BY_CONNECT_TYPE = {
    "int8": SchemaType.INT8,
    "int16": SchemaType.INT16,
    "int32": SchemaType.INT32,
    "int64": SchemaType.INT64,
    "float32": SchemaType.FLOAT32,
    "float64": SchemaType.FLOAT64,
    "bytes": SchemaType.BYTES,
}
_BY_TYPE = {
    "integer": SchemaType.INT64,
    "number": SchemaType.FLOAT64,
    "boolean": SchemaType.BOOLEAN,
    "string": SchemaType.STRING,
}
_OF_CONSTANT = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
_NULL = {"type": "null"}


def to_connect(document: Document, mapping: JsonSchemaMapping, version: int | None = None) -> Schema:
    """Return Connect's schema. `version` is that of the subject, for a schema that does not say its own.

    Raises RecordError for a schema that Connect cannot express.
    """
    try:
        schema = _Reader(mapping).schema(document.root, document)
    except RecursionError as error:
        raise RecordError("The JSON Schema is nested too deeply") from error
    return replace(schema, version=version) if schema.version is None and version is not None else schema


class _Reader:
    def __init__(self, mapping: JsonSchemaMapping) -> None:
        self._mapping = mapping
        self._open: list[Any] = []  # what is being read, by identity

    def schema(self, given: Any, document: Document) -> Schema:
        node, document = document.resolved(given)
        if not isinstance(node, dict):
            raise _inexpressible("a schema that allows anything, or nothing", node)
        if any(node is each for each in self._open):
            raise RecordError(
                f"The JSON Schema {node.get('title') or given} contains itself, which a schema of Kafka Connect "
                "cannot. Change the schema, or use JsonConverter with schemas.enable=false or ByteArrayConverter"
            )
        self._open.append(node)
        try:
            return self._annotated(self._bare(node, document), node)
        finally:
            self._open.pop()

    def _bare(self, node: dict[str, Any], document: Document) -> Schema:
        for keyword in ("oneOf", "anyOf"):
            if isinstance(node.get(keyword), list):
                return self._union(node[keyword], document)
        if isinstance(node.get("allOf"), list):
            return self.schema(_merged(node, document), document)
        if isinstance(node.get("enum"), list) and node.get("type", "string") == "string":
            return self._enum(node)
        kind = node.get("type", _OF_CONSTANT.get(type(node["const"])) if "const" in node else None)
        if isinstance(kind, list):
            rest = {key: value for key, value in node.items() if key not in ("title", "description", "default", INDEX)}
            return self._union([{**rest, "type": each} for each in kind], document)
        if kind is None and ("properties" in node or "additionalProperties" in node):
            kind = "object"
        if kind == "object":
            return self._object(node, document)
        if kind == "array":
            return self._array(node, document)
        by_connect = _BY_CONNECT_TYPE.get(str(node.get(TYPE)))
        if kind not in _BY_TYPE:
            raise _inexpressible("a schema without a type" if kind is None else f"the type {kind}", node)
        return Schema(by_connect or _BY_TYPE[str(kind)])

    def _union(self, members: list[Any], document: Document) -> Schema:
        resolved = [document.resolved(each) for each in members]
        others = [(node, of) for node, of in resolved if node != _NULL]
        is_optional = len(others) < len(resolved)
        if len(others) == 1 and (is_optional or self._mapping.flatten_singleton_unions):
            found = self.schema(*others[0])
            return found.optional() if is_optional else found
        is_general = self._mapping.generalized_sum_type_support
        prefix = GENERAL_FIELD if is_general else f"{ONE_OF}.field."
        fields = {f"{prefix}{index}": self.schema(*each).optional() for index, each in enumerate(others)}
        made = Schema.struct(fields, name=GENERAL_UNION if is_general else ONE_OF, is_optional=is_optional)
        return replace(made, parameters=((GENERAL_UNION, "connect_union"),)) if is_general else made

    def _enum(self, node: dict[str, Any]) -> Schema:
        symbols = [each for each in node["enum"] if each is not None]
        if not all(isinstance(each, str) for each in symbols):
            raise _inexpressible("an enum of anything but text", node)
        is_general = self._mapping.generalized_sum_type_support
        parameter = GENERAL_ENUM if is_general else ENUM
        numbered = [(f"{parameter}.{each}", str(n) if is_general else each) for n, each in enumerate(symbols)]
        title = node.get("title")
        parameters = ((parameter, title if isinstance(title, str) else ""), *numbered)
        return Schema(SchemaType.STRING, is_optional=None in node["enum"], parameters=parameters)

    def _object(self, node: dict[str, Any], document: Document) -> Schema:
        properties, others = node.get("properties", {}), node.get("additionalProperties")
        if not isinstance(properties, dict):
            raise _inexpressible("properties that are no object", node)
        if node.get(TYPE) == "map" or (not properties and isinstance(others, dict) and others):
            return Schema(SchemaType.MAP, key_schema=STRING, value_schema=self.schema(others, document))
        required = node.get("required", []) if self._mapping.use_optional_for_nonrequired else properties
        fields = []
        for name in _in_order(properties):
            schema = self.schema(properties[name], document)
            fields.append(Field(name, schema if name in required else schema.optional()))
        return Schema(SchemaType.STRUCT, fields=tuple(fields))

    def _array(self, node: dict[str, Any], document: Document) -> Schema:
        items = node.get("items")
        if isinstance(items, list) or items is None:
            raise _inexpressible("an array without a schema for all of its items", node)
        if node.get(TYPE) != "map":
            return Schema(SchemaType.ARRAY, value_schema=self.schema(items, document))
        entry, of = document.resolved(items)
        properties = entry.get("properties") if isinstance(entry, dict) else None
        if not isinstance(properties, dict) or properties.keys() != {KEY, VALUE}:
            raise RecordError("A map's entries must be objects with the properties key and value")
        key, value = self.schema(properties[KEY], of), self.schema(properties[VALUE], of)
        return Schema(SchemaType.MAP, key_schema=key, value_schema=value)

    def _annotated(self, schema: Schema, node: dict[str, Any]) -> Schema:
        title, doc, version, given = (node.get(key) for key in ("title", "description", VERSION, PARAMETERS))
        parameters = dict(schema.parameters)
        if isinstance(given, dict):
            parameters |= {str(key): str(value) for key, value in given.items()}
        schema = replace(
            schema,
            name=title if isinstance(title, str) and schema.name is None else schema.name,
            doc=doc if isinstance(doc, str) else schema.doc,
            version=version if isinstance(version, int) and not isinstance(version, bool) else schema.version,
            parameters=tuple(parameters.items()),
        )
        default = node.get("default")
        if default is None:
            return schema
        return replace(schema, default=decoder(replace(schema, default=None))(default))


def _in_order(properties: dict[str, Any]) -> list[str]:
    def index(name: str) -> float:
        node = properties[name]
        found = node.get(INDEX) if isinstance(node, dict) else None
        return found if isinstance(found, int) else float("inf")

    return sorted(properties, key=index)


def _merged(node: dict[str, Any], document: Document) -> dict[str, Any]:
    """Return one schema for `allOf`: the properties of all, and otherwise what the last one says."""
    merged: dict[str, Any] = {}
    rest = {key: value for key, value in node.items() if key != "allOf"}
    for each in (*(document.resolved(member)[0] for member in node["allOf"]), rest):
        if not isinstance(each, dict):
            raise _inexpressible("allOf with a schema that allows anything, or nothing", node)
        properties = {**merged.get("properties", {}), **each.get("properties", {})}
        required = [*merged.get("required", []), *each.get("required", [])]
        merged |= each
        if properties:
            merged |= {"properties": properties, "required": required}
    return merged


def _inexpressible(what: str, node: Any) -> RecordError:
    return RecordError(
        f"The JSON Schema has {what}, which a schema of Kafka Connect cannot express: {str(node)[:200]}. Use "
        "JsonConverter with schemas.enable=false or ByteArrayConverter for such values"
    )
