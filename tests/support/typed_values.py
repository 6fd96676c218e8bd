"""Schemas and values as `tests/oracle/ConnectConverters.java` writes them: each value with its type.

A value is `[kind, content]`: numbers are decimal texts, floats hexadecimal, bytes base64, decimals an unscaled number
and a scale, times milliseconds, arrays lists of values, maps lists of pairs, structs lists of the fields' values.
"""

import base64
import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from fencepost.api import Schema, SchemaType
from fencepost.record import Field
from fencepost.record.java_value import DAY_MS, EPOCH_DAY, fits, float32, milliseconds, moment
from fencepost.record.schema import DATE, TIME
from fencepost.record.type_table import INTEGER_BITS

Typed = Mapping[str, Any]
Value = list[Any] | None


def schema_of(given: Typed | None) -> Schema | None:
    """Return the schema that is described."""
    if given is None:
        return None
    schema = Schema(
        SchemaType[given["type"]],
        is_optional=given.get("optional", False),
        name=given.get("name"),
        version=given.get("version"),
        doc=given.get("doc"),
        parameters=tuple(given.get("parameters", {}).items()),
        fields=tuple(Field(name, _present(schema_of(part))) for name, part in given.get("fields", ())),
        key_schema=schema_of(given.get("keys")),
        value_schema=schema_of(given.get("items")),
    )
    default = given.get("default")
    return schema if default is None else replace(schema, default=value_of(schema, default))


def described(schema: Schema | None) -> dict[str, Any] | None:
    """Return the description of a schema."""
    if schema is None:
        return None
    found: dict[str, Any] = {"type": schema.type.name, "optional": schema.is_optional}
    for key, value in (("name", schema.name), ("version", schema.version), ("doc", schema.doc)):
        if value is not None:
            found[key] = value
    if schema.parameters:
        found["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        found["default"] = written(schema, schema.default)
    if schema.type is SchemaType.STRUCT:
        found["fields"] = [[field.name, described(field.schema)] for field in schema.fields]
    if schema.type is SchemaType.MAP:
        found["keys"] = described(schema.key_schema)
    if schema.type in (SchemaType.ARRAY, SchemaType.MAP):
        found["items"] = described(schema.value_schema)
    return found


def value_of(schema: Schema | None, given: Value) -> Any:
    """Return the value that is written."""
    if given is None:
        return None
    kind, content = given
    if kind in ("int8", "int16", "int32", "int64", "big"):
        return int(content)
    if kind in ("float32", "float64"):
        return float32(float(content)) if kind == "float32" else float(content)
    if kind in ("bytes", "buffer"):
        data = base64.b64decode(content)
        return data if kind == "bytes" else memoryview(data)
    if kind == "decimal":
        number = int(content[0])
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -content[1]))
    if kind == "time":
        return _time_of(schema, content)
    return _nested_of(schema, kind, content)


def _time_of(schema: Schema | None, ms: int) -> dt.date | dt.time | int:
    name = None if schema is None else schema.name
    if name == DATE.name and ms % DAY_MS == 0:
        return EPOCH_DAY + dt.timedelta(milliseconds=ms)
    if name == TIME.name:
        return moment(ms).time() if 0 <= ms < DAY_MS else ms
    return moment(ms)


def _nested_of(schema: Schema | None, kind: str, content: Any) -> Any:
    of_key, of_item = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
    if kind == "array":
        return [value_of(of_item, one) for one in content]
    if kind == "map":
        return {value_of(of_key, key): value_of(of_item, item) for key, item in content}
    if kind == "struct":
        fields = _present(schema).fields
        return {field.name: value_of(field.schema, one) for field, one in zip(fields, content, strict=True)}
    return content


def written(schema: Schema | None, value: Any) -> Value:
    """Return a value with its type, which is the schema's where there is one."""
    if value is None:
        return None
    if isinstance(value, bool):
        return ["boolean", value]
    if isinstance(value, int):
        return [_integer_kind(schema, value), str(value)]
    if isinstance(value, float):
        is_short = schema is not None and schema.type is SchemaType.FLOAT32
        return ["float32" if is_short else "float64", value.hex()]
    if isinstance(value, str):
        return ["string", value]
    if isinstance(value, bytes | bytearray | memoryview):
        return ["bytes", base64.b64encode(value).decode()]
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        number = int("".join(map(str, digits)))
        return ["decimal", [str(-number if sign else number), -int(exponent)]]
    if isinstance(value, dt.date | dt.time):
        return ["time", milliseconds(value)]
    return _nested(schema, value)


def _integer_kind(schema: Schema | None, value: int) -> str:
    if schema is not None and schema.type in INTEGER_BITS:
        return schema.type.name.lower()
    return "int64" if fits(value, 64) else "big"


def _nested(schema: Schema | None, value: Any) -> Value:
    of_key, of_item = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
    if isinstance(value, list | tuple):
        return ["array", [written(of_item, one) for one in value]]
    if schema is not None and schema.type is SchemaType.STRUCT:
        return ["struct", [written(field.schema, value[field.name]) for field in schema.fields]]
    return ["map", [[written(of_key, key), written(of_item, item)] for key, item in value.items()]]


def comparable(answer: Any) -> Any:
    """Return an answer in a form in which equal ones are equal: floats in one writing, maps in one order.

    Java's maps have no order when they are read, nor have a schema's parameters.
    """
    if isinstance(answer, dict):
        return {key: comparable(item) for key, item in answer.items()}
    if not isinstance(answer, list):
        return answer
    if len(answer) == 2 and answer[0] in ("float32", "float64") and isinstance(answer[1], str):
        return [answer[0], float.fromhex(answer[1]).hex()]
    if len(answer) == 2 and answer[0] == "map":
        return ["map", sorted(([comparable(one) for one in pair] for pair in answer[1]), key=json.dumps)]
    return [comparable(one) for one in answer]


def _present(schema: Schema | None) -> Schema:
    assert schema is not None
    return schema
