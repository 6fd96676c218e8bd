"""Connect's schema of an Avro schema, as Confluent's AvroData makes it."""

from dataclasses import replace
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.registry.avro import default, names
from fencepost.builtin.converter.registry.avro.parsing import MISSING, AvroField, AvroType
from fencepost.builtin.converter.registry.avro.settings import AvroMapping
from fencepost.record import Field
from fencepost.record.schema import DATE, TIME, TIMESTAMP, decimal

_PLAIN = {
    "boolean": SchemaType.BOOLEAN,
    "int": SchemaType.INT32,
    "long": SchemaType.INT64,
    "float": SchemaType.FLOAT32,
    "double": SchemaType.FLOAT64,
    "bytes": SchemaType.BYTES,
    "string": SchemaType.STRING,
    "fixed": SchemaType.BYTES,
    "enum": SchemaType.STRING,
}
_LOGICAL = {
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", "timestamp-millis"): TIMESTAMP,
}
_SMALL = {"int8": SchemaType.INT8, "int16": SchemaType.INT16}


def to_connect(avro: AvroType, mapping: AvroMapping, version: int | None = None) -> Schema:
    """Return Connect's schema. `version` is that of the subject, for a schema that does not say its own.

    Raises RecordError for a schema that Connect cannot express.
    """
    schema = _Reader(mapping).schema(avro)
    return replace(schema, version=version) if schema.version is None and version is not None else schema


def optional_part(avro: AvroType) -> AvroType | None:
    """Return the other member of a union of null and one type, or None for any other type."""
    others = [member for member in avro.members if member.kind != "null"]
    return others[0] if len(avro.members) == 2 and len(others) == 1 else None


def is_map_entry(avro: AvroType) -> bool:
    """Return whether a type is the entry of a map whose keys are no text."""
    if avro.kind != "record":
        return False
    by_name = avro.name == f"{names.NAMESPACE}.{names.MAP_ENTRY}"
    return by_name or avro.props.get(names.INTERNAL_TYPE) == names.MAP_ENTRY


class _Reader:
    def __init__(self, mapping: AvroMapping) -> None:
        self._mapping = mapping
        self._structs: dict[int, Schema] = {}  # by the identity of the type, which the tree keeps alive

    def schema(self, avro: AvroType) -> Schema:
        if avro.kind == "union":
            return self._of_union(avro)
        found = self._structs.get(id(avro))
        if found is None:
            found = self._structs[id(avro)] = self._annotated(avro, self._bare(avro))
        return found

    def _of_union(self, avro: AvroType) -> Schema:
        part = optional_part(avro)
        if part is not None:
            return self.schema(part).optional()
        if len(avro.members) == 1 and self._mapping.flatten_singleton_unions:
            return self.schema(avro.members[0])
        fields: dict[str, Schema] = {}
        for index, member in enumerate(member for member in avro.members if member.kind != "null"):
            name = member_name(member, index, self._mapping)
            if name in fields:
                raise RecordError(
                    f"Multiple union schemas map to the Connect union field name {name}: set "
                    "enhanced.avro.schema.support=true, which keeps their namespaces"
                )
            fields[name] = self.schema(member).optional()
        is_general = self._mapping.generalized_sum_type_support
        is_optional = any(member.kind == "null" for member in avro.members)
        made = Schema.struct(fields, name=names.UNION if is_general else names.AVRO_UNION, is_optional=is_optional)
        return replace(made, parameters=((names.UNION, "connect_union"),)) if is_general else made

    def _bare(self, avro: AvroType) -> Schema:
        if avro.kind == "null":
            raise RecordError("Standalone null schemas are not supported by this converter")
        if avro.kind == "record":
            return Schema(SchemaType.STRUCT, fields=tuple(map(self._field, avro.fields)))
        if avro.kind == "map":
            return Schema(SchemaType.MAP, key_schema=Schema(SchemaType.STRING), value_schema=self.schema(avro.items))
        if avro.kind == "array":
            return self._array(avro.items)
        logical = _LOGICAL.get((avro.kind, avro.logical_type or ""))
        if logical is not None:
            return logical
        if avro.logical_type == "decimal" and avro.kind in ("bytes", "fixed"):
            return self._decimal(avro)
        small = _SMALL.get(str(avro.props.get(names.CONNECT_TYPE))) if avro.kind == "int" else None
        made = Schema(small or _PLAIN[avro.kind])
        if avro.kind == "fixed":
            return replace(made, parameters=((names.FIXED_SIZE, str(avro.size)),))
        return replace(made, parameters=self._enum(avro)) if avro.kind == "enum" else made

    def _array(self, items: AvroType) -> Schema:
        if not is_map_entry(items):
            return Schema(SchemaType.ARRAY, value_schema=self.schema(items))
        by_name = {each.name: each.type for each in items.fields}
        if by_name.keys() != {names.KEY, names.VALUE}:
            raise RecordError(
                "Found map encoded as array of key-value pairs, but array elements do not match the expected format."
            )
        key, value = self.schema(by_name[names.KEY]), self.schema(by_name[names.VALUE])
        return Schema(SchemaType.MAP, key_schema=key, value_schema=value)

    def _decimal(self, avro: AvroType) -> Schema:
        scale, precision = avro.props.get("scale", 0), avro.props.get("precision")
        made = decimal(scale if isinstance(scale, int) else 0)
        added = []
        if isinstance(precision, int) and precision != names.DEFAULT_PRECISION:
            added.append((names.PRECISION, str(precision)))
        if avro.kind == "fixed":
            added.append((names.FIXED_SIZE, str(avro.size)))
        return replace(made, parameters=(*made.parameters, *added))

    def _enum(self, avro: AvroType) -> tuple[tuple[str, str], ...]:
        is_general = self._mapping.generalized_sum_type_support
        parameter = names.ENUM if is_general else names.AVRO_ENUM
        found = [(parameter, str(avro.name))]
        doc = avro.props.get("doc")
        if isinstance(doc, str) and self._mapping.connect_meta_data:
            found.insert(0, (names.ENUM_DOC, doc))
        for index, symbol in enumerate(avro.symbols):
            found.append((f"{parameter}.{symbol}", str(index) if is_general else symbol))
        return tuple(found)

    def _field(self, avro: AvroField) -> Field:
        schema = self.schema(avro.type)
        if avro.doc is not None and schema.doc is None:
            schema = replace(schema, doc=avro.doc)
        if avro.default is not MISSING and avro.default is not None:
            # The default of a union is that of its first member, which a struct of members does not have.
            is_struct = avro.type.kind == "union" and optional_part(avro.type) is None
            found = None if is_struct else default.from_json(replace(schema, default=None), avro.default)
            schema = replace(schema, default=found)
        return Field(avro.name, schema)

    def _annotated(self, avro: AvroType, schema: Schema) -> Schema:
        props = avro.props
        parameters = dict(schema.parameters)
        doc = props.get("doc") if avro.kind == "record" else props.get(names.CONNECT_DOC)
        if self._mapping.connect_meta_data and avro.kind == "record" and isinstance(doc, str):
            parameters[names.RECORD_DOC] = doc
        given = props.get(names.CONNECT_PARAMETERS)
        if isinstance(given, dict):
            parameters |= {str(key): str(value) for key, value in given.items()}
        parameters |= {key: str(value) for key, value in props.items() if key.startswith("avro.")}
        connect_doc = props.get(names.CONNECT_DOC, doc)
        schema = replace(
            schema,
            name=self._name(avro, schema),
            version=_version(props, schema),
            doc=connect_doc if isinstance(connect_doc, str) else None,
            parameters=tuple(parameters.items()),
        )
        value = props.get(names.CONNECT_DEFAULT)
        if value is None or self._mapping.discard_type_doc_default:
            return schema
        return replace(schema, default=default.from_json(schema, value))

    def _name(self, avro: AvroType, schema: Schema) -> str | None:
        given = avro.props.get(names.CONNECT_NAME)
        if isinstance(given, str):
            return given
        if schema.name is not None or avro.name is None or names.is_generated(avro.name):
            return schema.name
        return avro.name


def _version(props: Any, schema: Schema) -> int | None:
    found = props.get(names.CONNECT_VERSION)
    if found is None:
        return schema.version
    if not isinstance(found, int) or isinstance(found, bool):
        raise RecordError(f"Invalid Connect version found: {found}")
    return found


def member_name(avro: AvroType, index: int, mapping: AvroMapping) -> str:
    """Return the name of the struct's field for the `index`th member of a union that is not null."""
    if mapping.generalized_sum_type_support:
        return f"{names.UNION_FIELD}{index}"
    if avro.name is not None:
        return avro.name if mapping.enhanced_avro_schema_support else avro.name.rpartition(".")[2]
    return avro.kind
