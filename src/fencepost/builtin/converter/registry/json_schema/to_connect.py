"""Connect's schema of a JSON Schema, as Confluent's JsonSchemaData makes it."""

from dataclasses import replace
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.registry.json_schema.decoding import decoder
from fencepost.builtin.converter.registry.json_schema.document import Document
from fencepost.builtin.converter.registry.json_schema.settings import (
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
