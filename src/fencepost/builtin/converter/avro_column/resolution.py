"""Which decoder reads a writer's type as a reader's type: Avro's rules of schema resolution.

Beyond them: names of records, enums and fixed types are compared only to choose among the branches of a reader's union,
and a logical type that means something else to the reader is refused, where Avro would take its number for the other.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.builtin.converter.avro_column import column as c
from fencepost.builtin.converter.avro_column.decimal import decimals
from fencepost.builtin.converter.avro_column.items import Entries, Items, step_of
from fencepost.builtin.converter.avro_column.kind import PER_UNIT, arrow_type, default_of, member_names
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

_WIDER: Mapping[str, frozenset[str]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_FAMILIES = ("time-", "timestamp-", "local-timestamp-")
_LONG = pa.int64()
_MIDNIGHT, _DAY = pa.scalar(0, _LONG), pa.scalar(86_400_000_000_000, _LONG)


def resolved(writer: AvroType, reader: AvroType, path: str = "") -> c.Column:
    """Return what decodes values of the writer's type as the reader's. Raises AvroSchemaError if nothing can."""
    if isinstance(writer, Union):
        return c.Union([_branch(each, reader, path) for each in writer.branches], arrow_type(reader))
    if isinstance(reader, Union):
        return _into_union(writer, reader, path)
    match writer, reader:
        case Primitive("null"), Primitive("null"):
            return c.Null(arrow_type(reader))
        case ((Primitive() | Fixed()), (Primitive() | Fixed())):
            return _leaf(writer, reader, path)
        case Enum(), Enum():
            known = set(reader.symbols)
            return c.Enum([each if each in known else reader.default for each in writer.symbols])
        case Array(), Array():
            item = resolved(writer.items, reader.items, f"{path}[]")
            return Items(step_of(writer.items), item, arrow_type(reader))
        case Map(), Map():
            value = resolved(writer.values, reader.values, f"{path}[]")
            return Entries(step_of(writer.values), value, arrow_type(reader))
        case Record(), Record():
            return _struct(writer, reader, path)
    raise _unfit(writer, reader, path)


def _branch(writer: AvroType, reader: AvroType, path: str) -> c.Column:
    """Return the decoder of a branch of the writer's union: if there is none, values that have it are wrong."""
    try:
        return resolved(writer, reader, path)
    except AvroSchemaError as error:
        return c.Unfit(arrow_type(reader), str(error))


def _into_union(writer: AvroType, reader: Union, path: str) -> c.Column:
    type_ = arrow_type(reader)
    if writer.kind == "null":
        if not reader.has_null:
            raise _unfit(writer, reader, path)
        return c.Null(type_)
    if len(reader.some) == 1:
        return resolved(writer, reader.some[0], path)
    names = member_names(reader)
    for is_wanted in (_is_same, _is_alike, lambda *_: True):
        for name, branch in zip(names, reader.some, strict=True):
            if not is_wanted(writer, branch):
                continue
            try:
                return c.Member(resolved(writer, branch, path), name, type_)
            except AvroSchemaError:
                continue
    raise _unfit(writer, reader, path)


def _is_same(writer: AvroType, branch: AvroType) -> bool:
    return writer.kind == branch.kind and getattr(writer, "name", "") == getattr(branch, "name", "")


def _is_alike(writer: AvroType, branch: AvroType) -> bool:
    return writer.kind == branch.kind and _last(writer) == _last(branch)


def _last(of: AvroType) -> str:
    return str(getattr(of, "name", "")).rpartition(".")[2]


def _struct(writer: Record, reader: Record, path: str) -> c.Column:
    places = {_of(writer, field): place for place, field in enumerate(reader.fields)}
    fields: list[tuple[str, c.Column, int | None]] = []
    for own in writer.fields:
        place, under = places.pop(own.name, None), f"{path}.{own.name}" if path else own.name
        wanted = own.type if place is None else reader.fields[place].type
        fields.append((own.name, resolved(own.type, wanted, under), place))
    for name, place in places.items():
        field = reader.fields[place]
        if not field.has_default:
            under = f"{path}.{field.name}" if path else field.name
            raise AvroSchemaError(f"{under}: the writer's schema does not have it, and there is no default")
        fields.append((name, c.Constant(default_of(field)), place))
    return c.Struct(fields, arrow_type(reader))


def _of(writer: Record, field: Field) -> str:
    """Return the name that the writer has for a field."""
    own = {each.name for each in writer.fields}
    if field.name in own:
        return field.name
    return next((alias for alias in field.aliases if alias in own), field.name)


def _leaf(writer: Primitive | Fixed, reader: Primitive | Fixed, path: str) -> c.Column:
    logical = _logical(writer, reader, path)
    if isinstance(writer, Fixed) or isinstance(reader, Fixed):
        if isinstance(writer, Fixed) and isinstance(reader, Fixed) and writer.size == reader.size:
            return _converted(c.Fixed(writer.size), logical, reader)
        if logical is not None and logical.name == "decimal" and writer.logical is not None:
            raw = c.Fixed(writer.size) if isinstance(writer, Fixed) else c.Binary(pa.binary())
            return _converted(raw, logical, reader)
        raise _unfit(writer, reader, path)
    if writer.kind != reader.kind and reader.kind not in _WIDER.get(writer.kind, ()):
        raise _unfit(writer, reader, path)
    if logical is not None and writer.logical is not None:  # the unit of the writer's may be another one
        return _converted(_primitive(writer.kind, writer.kind), writer.logical, reader)
    return _converted(_primitive(writer.kind, reader.kind), logical, reader)


def _logical(writer: Primitive | Fixed, reader: Primitive | Fixed, path: str) -> Logical | None:
    """Return the reader's logical type. Raises AvroSchemaError if the writer's does not mean the same."""
    theirs, own = writer.logical, reader.logical
    if theirs is None or own is None or theirs == own:
        return own
    is_one_family = any(theirs.name.startswith(f) and own.name.startswith(f) for f in _FAMILIES)
    is_wider = theirs.name == own.name == "decimal" and theirs.scale == own.scale
    if not is_one_family and not is_wider:
        raise _unfit(writer, reader, path)
    return own


def _primitive(writer: str, reader: str) -> c.Column:
    own, wanted = arrow_type(Primitive(writer)), arrow_type(Primitive(reader))
    if writer == "boolean":
        return c.Boolean()
    if writer in ("int", "long"):
        return c.Number(own, wanted)
    if writer in ("float", "double"):
        return c.Floating(own, wanted)
    return c.Binary(wanted)


def _converted(raw: c.Column, logical: Logical | None, reader: Primitive | Fixed) -> c.Column:
    """Return the column of raw values that have a logical type."""
    type_ = arrow_type(reader)
    if logical is None or logical.name == "uuid":
        return raw
    if logical.name == "decimal":
        return c.Converted(raw, type_, lambda found: decimals(found, type_))
    if logical.name == "date":
        return c.Converted(raw, type_, lambda found: found.view(type_))
    factor = pa.scalar(PER_UNIT[logical.name], _LONG)
    return c.Converted(raw, type_, lambda found: _scaled(found, factor, type_))


def _scaled(found: pa.Array, factor: pa.Scalar, type_: pa.DataType) -> pa.Array:
    """Return times in their column's unit. Raises ArrowInvalid beyond what it holds, and for no time of day."""
    made = pc.multiply_checked(found.cast(_LONG), factor)
    if pa.types.is_time(type_) and not pc.all(pc.and_(pc.greater_equal(made, _MIDNIGHT), pc.less(made, _DAY))).as_py():
        raise ValueError("it is not a time of day")
    return made.view(type_)


def _unfit(writer: AvroType, reader: AvroType, path: str) -> AvroSchemaError:
    return AvroSchemaError(f"{path or 'the value'}: {_said(writer)} cannot be read as {_said(reader)}")


def _said(of: AvroType) -> str:
    if isinstance(of, Union):
        return "a union of " + ", ".join(map(_said, of.branches))
    logical = getattr(of, "logical", None)
    name = getattr(of, "name", "")
    return " ".join(filter(None, (of.kind, name, f"({logical.name})" if logical else "")))
