"""The Avro schema of a Connect schema, as Confluent's AvroData makes it: as JSON, with attributes in its order."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.compound import part
from fencepost.builtin.converter.logical import scale_of
from fencepost.builtin.converter.registry.avro import default, names
from fencepost.builtin.converter.registry.avro.settings import AvroMapping
from fencepost.record import Field
from fencepost.record.schema import DATE, TIME, TIMESTAMP
from fencepost.record.type_table import DECIMAL_NAME

_PLAIN = {
    SchemaType.INT8: "int",
    SchemaType.INT16: "int",
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_LOGICAL = {DATE.name: "date", TIME.name: "time-millis", TIMESTAMP.name: "timestamp-millis"}
_SMALL = {SchemaType.INT8: "int8", SchemaType.INT16: "int16"}


def from_connect(schema: Schema, mapping: AvroMapping) -> Any:
    """Return the JSON of the Avro schema. Raises RecordError for a schema that Avro cannot express."""
    return _Writer(mapping).type(schema, "")


def is_union(schema: Schema) -> bool:
    """Return whether a struct is a union in Avro: a value has one of its fields."""
    return schema.name in (names.AVRO_UNION, names.UNION) or names.UNION in dict(schema.parameters)


def is_avro_map(schema: Schema, mapping: AvroMapping) -> bool:
    """Return whether Avro's maps, whose keys are text, can hold the values of a map schema."""
    key = part(schema.key_schema)
    return key.type is SchemaType.STRING and (not key.is_optional or mapping.allow_optional_map_keys)


class _Writer:
    def __init__(self, mapping: AvroMapping) -> None:
        self._mapping = mapping
        self._defined: dict[str, Schema] = {}
        self._generated = 0

    def type(self, schema: Schema, namespace: str, *, is_member: bool = False) -> Any:
        """Return a type. A member of a union is never optional itself."""
        if schema.type is SchemaType.STRUCT and is_union(schema):
            members = [self.type(each.schema, namespace, is_member=True) for each in schema.fields]
            return ["null", *members] if schema.is_optional else members
        base = self._annotated(schema, namespace)
        if is_member or not schema.is_optional:
            return base
        is_first = self._has_default(schema)  # the default of a union is that of its first member
        return [base, "null"] if is_first else ["null", base]

    def _has_default(self, schema: Schema) -> bool:
        return schema.default is not None and not (self._mapping.ignore_default_for_nullables and schema.is_optional)

    def _annotated(self, schema: Schema, namespace: str) -> Any:
        if schema.type is SchemaType.STRUCT:
            made = self._named(schema, schema, namespace, self._record)
        elif schema.type is SchemaType.STRING and (enum := self._enum_of(schema)) is not None:
            made = self._named(schema, replace(schema, name=enum), namespace, self._enum)
        elif schema.type is SchemaType.BYTES and names.FIXED_SIZE in dict(schema.parameters):
            made = self._named(schema, schema, namespace, self._fixed)
        else:
            made = {"type": self._bare(schema, namespace)}
            if isinstance(made["type"], dict):
                made = made["type"]
        if isinstance(made, str):  # it was defined before
            return made
        made |= self._properties(schema)
        return made["type"] if made.keys() == {"type"} else made

    def _bare(self, schema: Schema, namespace: str) -> Any:
        if schema.type is SchemaType.ARRAY:
            return {"type": "array", "items": self.type(part(schema.value_schema), namespace)}
        if schema.type is SchemaType.MAP:
            if is_avro_map(schema, self._mapping):
                return {"type": "map", "values": self.type(part(schema.value_schema), namespace)}
            return {"type": "array", "items": self._entry(schema, namespace)}
        if schema.name == DECIMAL_NAME and schema.type is SchemaType.BYTES:
            return {"type": "bytes", **_scale_and_precision(schema)}
        return _PLAIN[schema.type]

    def _entry(self, schema: Schema, namespace: str) -> Any:
        entry = Schema.struct({names.KEY: part(schema.key_schema), names.VALUE: part(schema.value_schema)})
        name = f"{names.NAMESPACE}.{names.MAP_ENTRY}" if schema.name is None else self._scrubbed(schema.name)
        first, number = name, 1
        while self._defined.get(name, entry) != entry:
            number += 1
            name = f"{first}{number}"
        made = self._named(entry, replace(entry, name=name), namespace, self._record, key=entry)
        if isinstance(made, dict) and name != f"{names.NAMESPACE}.{names.MAP_ENTRY}":
            made[names.INTERNAL_TYPE] = names.MAP_ENTRY
        return made

    def _named(
        self,
        schema: Schema,
        named: Schema,
        namespace: str,
        make: Callable[[Schema, str], dict[str, Any]],
        key: Schema | None = None,
    ) -> Any:
        """Return the definition of a named type where it first occurs, and its name afterwards."""
        if named.name is None:
            self._generated += 1
            name = names.DEFAULT_NAME + (str(self._generated) if self._generated > 1 else "")
        else:
            name = self._scrubbed(named.name)
        key = replace(schema, is_optional=False, default=None) if key is None else key
        space, _, short = name.rpartition(".")
        if not names.is_valid_full(name):
            raise RecordError(f"Avro does not allow the schema name {name!r}: {_SCRUB}")
        known = self._defined.get(name)
        if known is not None:
            if known != key:
                raise RecordError(
                    f"Two different schemas have the name {name}, which Avro does not allow: give one another name"
                )
            return short if space == namespace else name
        made: dict[str, Any] = {"type": "", "name": short}
        if space != namespace:
            made["namespace"] = space
        self._defined[name] = key  # before what is inside, which may have the same name
        return made | make(schema, space)

    def _scrubbed(self, name: str) -> str:
        return names.scrubbed_full(name) if self._mapping.scrub_invalid_names else name

    def _record(self, schema: Schema, namespace: str) -> dict[str, Any]:
        doc = dict(schema.parameters).get(names.RECORD_DOC)
        made = {"type": "record"} | ({} if doc is None else {"doc": doc})
        return {**made, "fields": [self._field(field, namespace) for field in schema.fields]}

    def _field(self, field: Field, namespace: str) -> dict[str, Any]:
        name = names.scrubbed(field.name) if self._mapping.scrub_invalid_names else field.name
        if not names.is_valid(name):
            raise RecordError(f"Avro does not allow the field name {field.name!r}: {_SCRUB}")
        made: dict[str, Any] = {"name": name, "type": self.type(field.schema, namespace)}
        if field.schema.doc is not None and not self._mapping.discard_type_doc_default:
            made["doc"] = field.schema.doc
        if self._has_default(field.schema) and not is_union(field.schema):
            made["default"] = default.to_json(field.schema, field.schema.default)
        elif field.schema.is_optional:
            made["default"] = None
        return made

    def _enum_of(self, schema: Schema) -> str | None:
        parameters = dict(schema.parameters)
        if self._mapping.generalized_sum_type_support and names.ENUM in parameters:
            return parameters[names.ENUM]
        return parameters.get(names.AVRO_ENUM) if self._mapping.enhanced_avro_schema_support else None

    def _enum(self, schema: Schema, namespace: str) -> dict[str, Any]:
        parameters = dict(schema.parameters)
        prefix = f"{names.ENUM if names.ENUM in parameters else names.AVRO_ENUM}."
        symbols = [key.removeprefix(prefix) for key in parameters if key.startswith(prefix)]
        doc = parameters.get(names.ENUM_DOC)
        return {"type": "enum"} | ({} if doc is None else {"doc": doc}) | {"symbols": symbols}

    def _fixed(self, schema: Schema, namespace: str) -> dict[str, Any]:
        size = dict(schema.parameters)[names.FIXED_SIZE]
        if not size.isdigit():
            raise RecordError(f"The parameter {names.FIXED_SIZE} is {size!r}, not a number of bytes")
        made: dict[str, Any] = {"type": "fixed", "size": int(size)}
        return made | (_scale_and_precision(schema) if schema.name == DECIMAL_NAME else {})

    def _properties(self, schema: Schema) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._mapping.connect_meta_data:
            if schema.doc is not None and not self._mapping.discard_type_doc_default:
                found[names.CONNECT_DOC] = schema.doc
            if schema.version is not None:
                found[names.CONNECT_VERSION] = schema.version
            if schema.parameters:
                found[names.CONNECT_PARAMETERS] = dict(schema.parameters)
            if self._has_default(schema) and not self._mapping.discard_type_doc_default:
                found[names.CONNECT_DEFAULT] = default.to_json(schema, schema.default)
            if schema.name is not None:
                found[names.CONNECT_NAME] = schema.name
            if schema.type in _SMALL:
                found[names.CONNECT_TYPE] = _SMALL[schema.type]
        logical = _logical_type(schema)
        if logical is not None:
            found["logicalType"] = logical
        return found | {key: value for key, value in schema.parameters if key.startswith("avro.")}


_SCRUB = "rename it, for example with ReplaceField or SetSchemaMetadata, or set scrub.invalid.names=true"


def _scale_and_precision(schema: Schema) -> dict[str, int]:
    return {"scale": scale_of(schema), "precision": _precision(schema)}


def _precision(schema: Schema) -> int:
    text = dict(schema.parameters).get(names.PRECISION, str(names.DEFAULT_PRECISION))
    if not text.isdigit():
        raise RecordError(f"The parameter {names.PRECISION} is {text!r}, not a number of digits")
    return int(text)


def _logical_type(schema: Schema) -> str | None:
    if schema.name != DECIMAL_NAME:
        return _LOGICAL.get(schema.name)
    is_valid = 0 <= scale_of(schema) <= _precision(schema)
    return "decimal" if is_valid else None
