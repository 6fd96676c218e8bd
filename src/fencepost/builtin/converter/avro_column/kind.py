"""The Arrow type of the column for values of an Avro type, and the values of defaults in it."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from fencepost.api import RecordError
from fencepost.builtin.converter.registry.avro import parsing
from fencepost.builtin.converter.registry.avro.parsing import AvroField, AvroType
from fencepost.record.type_table import MOST_DIGITS, arrow_of_avro

ITEM = "element"
PLAIN: Mapping[str, pa.DataType] = {
    name: arrow_of_avro(name)
    for name in ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum")
}
_LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("date", "int"): arrow_of_avro("date"),
    ("time-millis", "int"): arrow_of_avro("time-millis"),
    ("time-micros", "long"): arrow_of_avro("time-micros"),
    ("timestamp-millis", "long"): arrow_of_avro("timestamp-millis"),
    ("timestamp-micros", "long"): arrow_of_avro("timestamp-micros"),
    ("local-timestamp-millis", "long"): pa.timestamp("us"),
    ("local-timestamp-micros", "long"): pa.timestamp("us"),
    ("uuid", "string"): arrow_of_avro("uuid"),
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


_DEEPEST = 100


class AvroSchemaError(ValueError):
    """A schema that is not Avro, that has no columns, or that does not fit another one."""


class Logical(NamedTuple):
    """A logical type. Precision and scale are those of a decimal."""

    name: str
    precision: int = 0
    scale: int = 0


def parsed(text: str, references: Sequence[str] = ()) -> AvroType:
    """Parse a schema. `references` are schemas whose names it uses, each after those that it uses itself.

    Raises AvroSchemaError.
    """
    try:
        found = parsing.parsed(text, references)
    except RecordError as error:
        raise AvroSchemaError(str(error)) from error
    _check(found, 0)
    return found


def _check(of: AvroType, depth: int) -> None:
    if depth > _DEEPEST:
        raise AvroSchemaError(f"the schema is nested more than {_DEEPEST} deep")
    logical_of(of)
    for part in (*of.members, *(field.type for field in of.fields), *filter(None, [of.items])):
        _check(part, depth + 1)


def logical_of(of: AvroType) -> Logical | None:
    """Return a logical type, or None for one that is unknown or wrong: Avro's rule is to ignore it then."""
    name = of.logical_type
    if name is not None and (name, of.kind) in _LOGICAL:
        return Logical(name)
    if name != "decimal" or of.kind not in ("bytes", "fixed"):
        return None
    precision, scale = of.props.get("precision"), of.props.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision < 1:
        return None
    if scale > MOST_DIGITS:
        raise AvroSchemaError(f"a decimal of scale {scale} has no column: the most is {MOST_DIGITS} digits")
    # Kafka Connect announces 64 digits if it does not know better; values with more than a column has are refused.
    return Logical("decimal", min(precision, MOST_DIGITS), scale)


def arrow_type(of: AvroType) -> pa.DataType:
    """Return the type of a column; every column and every part of it may be null."""
    logical = logical_of(of)
    if logical is not None:
        is_decimal = logical.name == "decimal"
        return pa.decimal128(logical.precision, logical.scale) if is_decimal else _LOGICAL[logical.name, of.kind]
    match of.kind:
        case "array":
            return pa.list_(pa.field(ITEM, arrow_type(of.items)))
        case "map":
            return pa.map_(pa.string(), arrow_type(of.items))
        case "record":
            return pa.struct([(field.name, arrow_type(field.type)) for field in of.fields])
        case "union":
            some = some_of(of)
            if len(some) < 2:
                return arrow_type(some[0]) if some else PLAIN["null"]
            return pa.struct(list(zip(member_names(of), map(arrow_type, some), strict=True)))
    return PLAIN[of.kind]


def some_of(union: AvroType) -> list[AvroType]:
    """Return the branches other than null."""
    return [branch for branch in union.members if branch.kind != "null"]


def member_names(union: AvroType) -> list[str]:
    """Return the name of each branch but null: of records, enums and fixed the last part of their names if it is
    enough, of others what they are.
    """
    full = [branch.name or branch.kind for branch in some_of(union)]
    short = [name.rpartition(".")[2] for name in full]
    return short if len(set(short)) == len(short) else full


def default_of(field: AvroField) -> pa.Scalar:
    """Return the value of a field that the writer does not have. Raises AvroSchemaError."""
    kind = arrow_type(field.type)
    try:
        return pa.array([_value(field.type, field.default)], kind)[0]
    except _MISFITS as error:
        raise AvroSchemaError(f"the default of field {field.name} does not fit its type: {error}") from error


def _value(of: AvroType, found: Any) -> Any:
    logical = logical_of(of)
    match of.kind:
        case "bytes" | "fixed":
            data = str(found).encode("latin-1")
            return data if logical is None else Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-logical.scale)
        case "null":
            if found is not None:
                raise ValueError(f"{found!r} is not null")
            return None
        case "boolean" if not isinstance(found, bool):
            raise ValueError(f"{found!r} is not a boolean")
        case "array":
            return [_value(of.items, each) for each in found]
        case "map":
            return [(key, _value(of.items, each)) for key, each in found.items()]
        case "record":
            return {field.name: _member(field, found) for field in of.fields}
        case "union":
            return _of_union(of, found)
    if found is None:
        raise ValueError("null has no place there")
    return int(found) * PER_UNIT[logical.name] if logical is not None and logical.name in PER_UNIT else found


def _member(field: AvroField, struct: Mapping[str, Any]) -> Any:
    found = struct.get(field.name, field.default)
    if found is parsing.MISSING:
        raise ValueError(f"field {field.name} has no default")
    return _value(field.type, found)


def _of_union(union: AvroType, found: Any) -> Any:
    """Return a default of the first branch that it fits: Avro asks for the first, writers are not that exact."""
    faults, some = [], some_of(union)
    for branch in union.members:
        try:
            value = _value(branch, found)
            pa.array([value], arrow_type(branch))
        except _MISFITS as error:
            faults.append(str(error))
            continue
        if value is None or len(some) == 1:
            return value
        return {member_names(union)[some.index(branch)]: value}
    raise ValueError("; ".join(faults))
