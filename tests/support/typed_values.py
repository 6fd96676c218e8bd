"""Schemas and values in the notation of `tests/oracle/ConnectConverters.java`, which keeps the types of Java."""

import base64
import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from fencepost.api import Schema, SchemaType
from fencepost.record import Field
from fencepost.record.java_integer import INTEGER_BITS
from fencepost.record.java_time import milliseconds, moment
from fencepost.record.schema import DATE, TIME

Typed = dict[str, Any]

_TYPES = {kind.name: kind for kind in SchemaType}
_INTEGERS = {kind.value for kind in INTEGER_BITS} | {"big"}


def schema_of(typed: Typed | None) -> Schema | None:
    """Read a schema."""
    if typed is None:
        return None
    found = Schema(
        _TYPES[typed["type"]],
        is_optional=typed.get("optional", False),
        name=typed.get("name"),
        version=typed.get("version"),
        doc=typed.get("doc"),
        parameters=tuple(typed.get("parameters", {}).items()),
        fields=tuple(Field(name, _some(schema_of(part))) for name, part in typed.get("fields", ())),
        key_schema=schema_of(typed.get("keys")),
        value_schema=schema_of(typed.get("items")),
    )
    return replace(found, default=value_of(found, typed["default"])) if "default" in typed else found


def _some(schema: Schema | None) -> Schema:
    assert schema is not None
    return schema


def value_of(schema: Schema | None, typed: Any) -> Any:
    """Read a value."""
    if typed is None:
        return None
    kind, content = typed
    if kind in _INTEGERS:
        return int(content)
    if kind in ("float32", "float64"):
        return float.fromhex(content) if "x" in content else float(content)
    if kind in ("bytes", "buffer"):
        return base64.b64decode(content)
    if kind == "decimal":
        return Decimal(int(content[0])).scaleb(-content[1]) if content[1] else Decimal(int(content[0]))
    if kind == "time":
        return _moment(schema, content)
    if kind == "array":
        return [value_of(schema and schema.value_schema, one) for one in content]
    if kind == "map":
        key, item = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
        return {value_of(key, one): value_of(item, other) for one, other in content}
    if kind == "struct":
        fields = _some(schema).fields
        return {field.name: value_of(field.schema, one) for field, one in zip(fields, content, strict=False)}
    return content


def _moment(schema: Schema | None, ms: int) -> dt.date | dt.time:
    name = None if schema is None else schema.name
    if name == DATE.name:
        return moment(ms).date()
    return moment(ms).time() if name == TIME.name else moment(ms)


def described(schema: Schema | None) -> Typed | None:
    """Write a schema."""
    if schema is None:
        return None
    found: Typed = {"type": schema.type.name, "optional": schema.is_optional}
    for key, value in (("name", schema.name), ("version", schema.version), ("doc", schema.doc)):
        if value is not None:
            found[key] = value
    if schema.parameters:
        found["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        found["default"] = written(schema, schema.default)
    if schema.type is SchemaType.STRUCT:
        found["fields"] = [[field.name, described(field.schema)] for field in schema.fields]
    if schema.key_schema is not None:
        found["keys"] = described(schema.key_schema)
    if schema.value_schema is not None:
        found["items"] = described(schema.value_schema)
    return found


def written(schema: Schema | None, value: Any) -> Any:
    """Write a value. Without a schema an integer has 64 bits, a number with a fraction is a double, as in JSON."""
    if value is None:
        return None
    if isinstance(value, bool):
        return ["boolean", value]
    if isinstance(value, int):
        return [schema.type.value if schema else "int64", str(value)]
    if isinstance(value, float):
        return ["float32" if schema and schema.type is SchemaType.FLOAT32 else "float64", value.hex()]
    if isinstance(value, str):
        return ["string", value]
    if isinstance(value, bytes):
        return ["bytes", base64.b64encode(value).decode()]
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits)))
        return ["decimal", [str(-number if sign else number), -int(exponent)]]
    if isinstance(value, dt.date | dt.time):
        return ["time", milliseconds(value)]
    if isinstance(value, Mapping):
        if schema is not None and schema.type is SchemaType.STRUCT:
            return ["struct", [written(field.schema, value.get(field.name)) for field in schema.fields]]
        key, item = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
        return ["map", [[written(key, one), written(item, other)] for one, other in value.items()]]
    return ["array", [written(schema and schema.value_schema, one) for one in value]]


def comparable(typed: Any) -> Any:
    """Return a schema or value in a form in which equal ones are equal: floats as numbers, maps without an order."""
    if isinstance(typed, dict):
        return {key: comparable(value) for key, value in typed.items()}
    if isinstance(typed, list) and len(typed) == 2 and typed[0] in ("float32", "float64"):
        return [typed[0], float.fromhex(typed[1]).hex()]
    if isinstance(typed, list) and len(typed) == 2 and typed[0] == "map" and isinstance(typed[1], list):
        return ["map", sorted((comparable(pair) for pair in typed[1]), key=repr)]
    return [comparable(each) for each in typed] if isinstance(typed, list) else typed
