"""The Arrow type of the column for values of an Avro type, and the values of defaults in it."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from fencepost.builtin.converter.avro_column.schema import (
    Array,
    AvroSchemaError,
    AvroType,
    Enum,
    Field,
    Fixed,
    Logical,
    Map,
    Primitive,
    Record,
    Union,
)

ITEM = "element"
_PRIMITIVES: Mapping[str, pa.DataType] = {
    "null": pa.string(),  # without a value there is nothing to be wrong about, and any store has a column for it
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Mapping[str, pa.DataType] = {
    "date": pa.date32(),
    "time-millis": pa.time64("ns"),
    "time-micros": pa.time64("ns"),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
    "uuid": pa.string(),
}
PER_UNIT: Mapping[str, int] = {
    "time-millis": 1_000_000,
    "time-micros": 1_000,
    "timestamp-millis": 1_000,
    "timestamp-micros": 1,
    "local-timestamp-millis": 1_000,
    "local-timestamp-micros": 1,
}
"""By how much a value is multiplied for its column."""
_MISFITS = (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, pa.ArrowException)
"""What a default that does not fit its type raises."""


def arrow_type(of: AvroType) -> pa.DataType:
    """Return the type of a column; every column and every part of it may be null."""
    match of:
        case Primitive(kind, None):
            return _PRIMITIVES[kind]
        case Primitive(logical=Logical() as logical) | Fixed(logical=Logical() as logical):
            is_decimal = logical.name == "decimal"
            return pa.decimal128(logical.precision, logical.scale) if is_decimal else _LOGICAL[logical.name]
        case Fixed():
            return pa.binary()
        case Enum():
            return pa.string()
        case Array(items):
            return pa.list_(pa.field(ITEM, arrow_type(items)))
        case Map(values):
            return pa.map_(pa.string(), arrow_type(values))
        case Record(_, fields):
            return pa.struct([(field.name, arrow_type(field.type)) for field in fields])
        case Union():
            return _union(of)
    raise AssertionError(of)


def member_names(union: Union) -> list[str]:
    """Return the name of each branch but null: of records, enums and fixed the last part of their names if it is
    enough, of others what they are.
    """
    full = [getattr(branch, "name", branch.kind) for branch in union.some]
    short = [name.rpartition(".")[2] for name in full]
    return short if len(set(short)) == len(short) else full


def default_of(field: Field) -> pa.Scalar:
    """Return the value of a field that the writer does not have. Raises AvroSchemaError."""
    kind = arrow_type(field.type)
    try:
        return pa.array([_value(field.type, field.default)], kind)[0]
    except _MISFITS as error:
        raise AvroSchemaError(f"the default of field {field.name} does not fit its type: {error}") from error


def _union(union: Union) -> pa.DataType:
    if not union.some:
        return _PRIMITIVES["null"]
    if len(union.some) == 1:
        return arrow_type(union.some[0])
    return pa.struct(list(zip(member_names(union), map(arrow_type, union.some), strict=True)))


def _value(of: AvroType, found: Any) -> Any:
    match of:
        case Primitive("bytes", Logical("decimal") as logical) | Fixed(logical=Logical("decimal") as logical):
            return Decimal(int.from_bytes(_bytes(found), "big", signed=True)).scaleb(-logical.scale)
        case Primitive("bytes") | Fixed():
            return _bytes(found)
        case Primitive("null"):
            if found is not None:
                raise ValueError(f"{found!r} is not null")
            return None
        case Primitive(_, Logical() as logical) if logical.name in PER_UNIT:
            return int(found) * PER_UNIT[logical.name]
        case Primitive("boolean") if not isinstance(found, bool):
            raise ValueError(f"{found!r} is not a boolean")
        case Array(items):
            return [_value(items, each) for each in found]
        case Map(values):
            return [(key, _value(values, each)) for key, each in found.items()]
        case Record(_, fields):
            return {f.name: _value(f.type, found[f.name] if f.name in found else _own_default(f)) for f in fields}
        case Union(branches):
            return _of_union(of, branches, found)
    if found is None:
        raise ValueError("null has no place there")
    return found


def _own_default(field: Field) -> Any:
    if not field.has_default:
        raise ValueError(f"field {field.name} has no default")
    return field.default


def _of_union(union: Union, branches: tuple[AvroType, ...], found: Any) -> Any:
    """Return a default of the first branch that it fits: Avro asks for the first, writers are not that exact."""
    faults = []
    for branch in branches:
        try:
            value = _value(branch, found)
            pa.array([value], arrow_type(branch))
        except _MISFITS as error:
            faults.append(str(error))
            continue
        if value is None or len(union.some) == 1:
            return value
        return {member_names(union)[union.some.index(branch)]: value}
    raise ValueError("; ".join(faults))


def _bytes(found: Any) -> bytes:
    return str(found).encode("latin-1")
