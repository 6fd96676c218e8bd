"""Avro schemas of Connect's schemas, and the reverse, as Confluent's AvroData maps them.

Avro schemas are JSON, with attributes in the original's order. So are defaults of fields: bytes are text with a
character for each byte, and logical types are plain values.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.converter.connect_value import LOGICAL_TYPES, part, scale_of
from fencepost.builtin.converter.registry.avro import parsing
from fencepost.builtin.converter.registry.avro.parsing import KEY, MISSING, VALUE, AvroField, AvroType
from fencepost.builtin.converter.registry.settings import AvroMapping
from fencepost.record import Field
from fencepost.record.schema import DATE, TIME, TIMESTAMP, decimal
from fencepost.record.type_table import DECIMAL_NAME


def to_json(schema: Schema, value: Any) -> Any:
    """Return the default of a Connect schema for Avro."""
    if value is None:
        return None
    logical = LOGICAL_TYPES.get(schema.name)
    plain = value if logical is None else logical.to_plain(schema, value)
    kind = schema.type
    if kind is SchemaType.BYTES:
        return bytes(plain).decode("iso-8859-1")
    if kind is SchemaType.ARRAY and schema.value_schema is not None:
        return [to_json(schema.value_schema, item) for item in plain]
    if kind is SchemaType.MAP and schema.value_schema is not None and schema.key_schema is not None:
        if schema.key_schema.type is SchemaType.STRING and not schema.key_schema.is_optional:
            return {key: to_json(schema.value_schema, item) for key, item in plain.items()}
        return [{KEY: to_json(schema.key_schema, k), VALUE: to_json(schema.value_schema, v)} for k, v in plain.items()]
    if kind is SchemaType.STRUCT:
        return {field.name: to_json(field.schema, plain.get(field.name)) for field in schema.fields}
    return plain


def from_json(schema: Schema, value: Any) -> Any:
    """Return a default of Avro as a value of the Connect schema. Raises RecordError if it does not fit."""
    try:
        return _from_json(replace(schema, is_optional=True), value)
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
        raise RecordError(
            f"The default {str(value)[:80]!r} of an Avro field does not fit {schema.type.name}"
        ) from error


def _from_json(schema: Schema, value: Any) -> Any:
    if value is None:
        if schema.is_optional:
            return None
        raise ValueError("null")
    plain = _plain(schema, value)
    logical = LOGICAL_TYPES.get(schema.name)
    return plain if logical is None else logical.from_plain(schema, plain)


def _plain(schema: Schema, value: Any) -> Any:
    kind = schema.type
    if kind is SchemaType.BYTES:
        return bytes(value.encode("iso-8859-1"))
    if kind is SchemaType.ARRAY and schema.value_schema is not None:
        return [_from_json(schema.value_schema, item) for item in value]
    if kind is SchemaType.MAP and schema.key_schema is not None and schema.value_schema is not None:
        pairs = value.items() if isinstance(value, Mapping) else [(item[KEY], item[VALUE]) for item in value]
        return {_from_json(schema.key_schema, k): _from_json(schema.value_schema, v) for k, v in pairs}
    if kind is SchemaType.STRUCT:
        return {field.name: _member(field.schema, value, field.name) for field in schema.fields}
    if kind is SchemaType.BOOLEAN or kind is SchemaType.STRING:
        if isinstance(value, bool if kind is SchemaType.BOOLEAN else str):
            return value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        is_float = kind in (SchemaType.FLOAT32, SchemaType.FLOAT64)
        if is_float or value == int(value):
            return float(value) if is_float else int(value)
    elif kind in (SchemaType.FLOAT32, SchemaType.FLOAT64) and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    raise ValueError(value)


def _member(schema: Schema, value: Any, name: str) -> Any:
    if name not in value and schema.default is not None:
        return schema.default
    return _from_json(schema, value.get(name))


_AVRO_NAMES = {
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
_AVRO_LOGICAL = {DATE.name: "date", TIME.name: "time-millis", TIMESTAMP.name: "timestamp-millis"}
_SMALL_NAMES = {SchemaType.INT8: "int8", SchemaType.INT16: "int16"}


def from_connect(schema: Schema, mapping: AvroMapping) -> Any:
    """Return the JSON of the Avro schema. Raises RecordError for a schema that Avro cannot express."""
    return _Writer(mapping).type(schema, "")


def is_union(schema: Schema) -> bool:
    """Return whether a struct is a union in Avro: a value has one of its fields."""
    return schema.name in (parsing.AVRO_UNION, parsing.UNION) or parsing.UNION in dict(schema.parameters)


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
        elif schema.type is SchemaType.BYTES and parsing.FIXED_SIZE in dict(schema.parameters):
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
        return _AVRO_NAMES[schema.type]

    def _entry(self, schema: Schema, namespace: str) -> Any:
        entry = Schema.struct({parsing.KEY: part(schema.key_schema), parsing.VALUE: part(schema.value_schema)})
        name = f"{parsing.NAMESPACE}.{parsing.MAP_ENTRY}" if schema.name is None else self._scrubbed(schema.name)
        first, number = name, 1
        while self._defined.get(name, entry) != entry:
            number += 1
            name = f"{first}{number}"
        made = self._named(entry, replace(entry, name=name), namespace, self._record, key=entry)
        if isinstance(made, dict) and name != f"{parsing.NAMESPACE}.{parsing.MAP_ENTRY}":
            made[parsing.INTERNAL_TYPE] = parsing.MAP_ENTRY
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
            name = parsing.DEFAULT_NAME + (str(self._generated) if self._generated > 1 else "")
        else:
            name = self._scrubbed(named.name)
        key = replace(schema, is_optional=False, default=None) if key is None else key
        space, _, short = name.rpartition(".")
        if not parsing.is_valid_full(name):
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
        return parsing.scrubbed_full(name) if self._mapping.scrub_invalid_names else name

    def _record(self, schema: Schema, namespace: str) -> dict[str, Any]:
        doc = dict(schema.parameters).get(parsing.RECORD_DOC)
        made = {"type": "record"} | ({} if doc is None else {"doc": doc})
        return {**made, "fields": [self._field(field, namespace) for field in schema.fields]}

    def _field(self, field: Field, namespace: str) -> dict[str, Any]:
        name = parsing.scrubbed(field.name) if self._mapping.scrub_invalid_names else field.name
        if not parsing.is_valid(name):
            raise RecordError(f"Avro does not allow the field name {field.name!r}: {_SCRUB}")
        made: dict[str, Any] = {"name": name, "type": self.type(field.schema, namespace)}
        if field.schema.doc is not None and not self._mapping.discard_type_doc_default:
            made["doc"] = field.schema.doc
        if self._has_default(field.schema) and not is_union(field.schema):
            made["default"] = to_json(field.schema, field.schema.default)
        elif field.schema.is_optional:
            made["default"] = None
        return made

    def _enum_of(self, schema: Schema) -> str | None:
        parameters = dict(schema.parameters)
        if self._mapping.generalized_sum_type_support and parsing.ENUM in parameters:
            return parameters[parsing.ENUM]
        return parameters.get(parsing.AVRO_ENUM) if self._mapping.enhanced_avro_schema_support else None

    def _enum(self, schema: Schema, namespace: str) -> dict[str, Any]:
        parameters = dict(schema.parameters)
        prefix = f"{parsing.ENUM if parsing.ENUM in parameters else parsing.AVRO_ENUM}."
        symbols = [key.removeprefix(prefix) for key in parameters if key.startswith(prefix)]
        doc = parameters.get(parsing.ENUM_DOC)
        return {"type": "enum"} | ({} if doc is None else {"doc": doc}) | {"symbols": symbols}

    def _fixed(self, schema: Schema, namespace: str) -> dict[str, Any]:
        size = dict(schema.parameters)[parsing.FIXED_SIZE]
        if not size.isdigit():
            raise RecordError(f"The parameter {parsing.FIXED_SIZE} is {size!r}, not a number of bytes")
        made: dict[str, Any] = {"type": "fixed", "size": int(size)}
        return made | (_scale_and_precision(schema) if schema.name == DECIMAL_NAME else {})

    def _properties(self, schema: Schema) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._mapping.connect_meta_data:
            if schema.doc is not None and not self._mapping.discard_type_doc_default:
                found[parsing.CONNECT_DOC] = schema.doc
            if schema.version is not None:
                found[parsing.CONNECT_VERSION] = schema.version
            if schema.parameters:
                found[parsing.CONNECT_PARAMETERS] = dict(schema.parameters)
            if self._has_default(schema) and not self._mapping.discard_type_doc_default:
                found[parsing.CONNECT_DEFAULT] = to_json(schema, schema.default)
            if schema.name is not None:
                found[parsing.CONNECT_NAME] = schema.name
            if schema.type in _SMALL_NAMES:
                found[parsing.CONNECT_TYPE] = _SMALL_NAMES[schema.type]
        logical = _logical_type(schema)
        if logical is not None:
            found["logicalType"] = logical
        return found | {key: value for key, value in schema.parameters if key.startswith("avro.")}


_SCRUB = "rename it, for example with ReplaceField or SetSchemaMetadata, or set scrub.invalid.names=true"


def _scale_and_precision(schema: Schema) -> dict[str, int]:
    return {"scale": scale_of(schema), "precision": _precision(schema)}


def _precision(schema: Schema) -> int:
    text = dict(schema.parameters).get(parsing.PRECISION, str(parsing.DEFAULT_PRECISION))
    if not text.isdigit():
        raise RecordError(f"The parameter {parsing.PRECISION} is {text!r}, not a number of digits")
    return int(text)


def _logical_type(schema: Schema) -> str | None:
    if schema.name != DECIMAL_NAME:
        return _AVRO_LOGICAL.get(schema.name)
    is_valid = 0 <= scale_of(schema) <= _precision(schema)
    return "decimal" if is_valid else None


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
    by_name = avro.name == f"{parsing.NAMESPACE}.{parsing.MAP_ENTRY}"
    return by_name or avro.props.get(parsing.INTERNAL_TYPE) == parsing.MAP_ENTRY


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
        made = Schema.struct(fields, name=parsing.UNION if is_general else parsing.AVRO_UNION, is_optional=is_optional)
        return replace(made, parameters=((parsing.UNION, "connect_union"),)) if is_general else made

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
        small = _SMALL.get(str(avro.props.get(parsing.CONNECT_TYPE))) if avro.kind == "int" else None
        made = Schema(small or _PLAIN[avro.kind])
        if avro.kind == "fixed":
            return replace(made, parameters=((parsing.FIXED_SIZE, str(avro.size)),))
        return replace(made, parameters=self._enum(avro)) if avro.kind == "enum" else made

    def _array(self, items: AvroType) -> Schema:
        if not is_map_entry(items):
            return Schema(SchemaType.ARRAY, value_schema=self.schema(items))
        by_name = {each.name: each.type for each in items.fields}
        if by_name.keys() != {parsing.KEY, parsing.VALUE}:
            raise RecordError(
                "Found map encoded as array of key-value pairs, but array elements do not match the expected format."
            )
        key, value = self.schema(by_name[parsing.KEY]), self.schema(by_name[parsing.VALUE])
        return Schema(SchemaType.MAP, key_schema=key, value_schema=value)

    def _decimal(self, avro: AvroType) -> Schema:
        scale, precision = avro.props.get("scale", 0), avro.props.get("precision")
        made = decimal(scale if isinstance(scale, int) else 0)
        added = []
        if isinstance(precision, int) and precision != parsing.DEFAULT_PRECISION:
            added.append((parsing.PRECISION, str(precision)))
        if avro.kind == "fixed":
            added.append((parsing.FIXED_SIZE, str(avro.size)))
        return replace(made, parameters=(*made.parameters, *added))

    def _enum(self, avro: AvroType) -> tuple[tuple[str, str], ...]:
        is_general = self._mapping.generalized_sum_type_support
        parameter = parsing.ENUM if is_general else parsing.AVRO_ENUM
        found = [(parameter, str(avro.name))]
        doc = avro.props.get("doc")
        if isinstance(doc, str) and self._mapping.connect_meta_data:
            found.insert(0, (parsing.ENUM_DOC, doc))
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
            found = None if is_struct else from_json(replace(schema, default=None), avro.default)
            schema = replace(schema, default=found)
        return Field(avro.name, schema)

    def _annotated(self, avro: AvroType, schema: Schema) -> Schema:
        props = avro.props
        parameters = dict(schema.parameters)
        doc = props.get("doc") if avro.kind == "record" else props.get(parsing.CONNECT_DOC)
        if self._mapping.connect_meta_data and avro.kind == "record" and isinstance(doc, str):
            parameters[parsing.RECORD_DOC] = doc
        given = props.get(parsing.CONNECT_PARAMETERS)
        if isinstance(given, dict):
            parameters |= {str(key): str(value) for key, value in given.items()}
        parameters |= {key: str(value) for key, value in props.items() if key.startswith("avro.")}
        connect_doc = props.get(parsing.CONNECT_DOC, doc)
        schema = replace(
            schema,
            name=self._name(avro, schema),
            version=_version(props, schema),
            doc=connect_doc if isinstance(connect_doc, str) else None,
            parameters=tuple(parameters.items()),
        )
        value = props.get(parsing.CONNECT_DEFAULT)
        if value is None or self._mapping.discard_type_doc_default:
            return schema
        return replace(schema, default=from_json(schema, value))

    def _name(self, avro: AvroType, schema: Schema) -> str | None:
        given = avro.props.get(parsing.CONNECT_NAME)
        if isinstance(given, str):
            return given
        if schema.name is not None or avro.name is None or parsing.is_generated(avro.name):
            return schema.name
        return avro.name


def _version(props: Any, schema: Schema) -> int | None:
    found = props.get(parsing.CONNECT_VERSION)
    if found is None:
        return schema.version
    if not isinstance(found, int) or isinstance(found, bool):
        raise RecordError(f"Invalid Connect version found: {found}")
    return found


def member_name(avro: AvroType, index: int, mapping: AvroMapping) -> str:
    """Return the name of the struct's field for the `index`th member of a union that is not null."""
    if mapping.generalized_sum_type_support:
        return f"{parsing.UNION_FIELD}{index}"
    if avro.name is not None:
        return avro.name if mapping.enhanced_avro_schema_support else avro.name.rpartition(".")[2]
    return avro.kind
