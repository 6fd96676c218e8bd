"""Values of one writer's schema as a column of a reader's schema, by Avro's rules of schema resolution.

Beyond them: names of records, enums and fixed types are compared only to choose among the branches of a reader's union,
and a logical type that means something else to the reader is refused, where Avro would take its number for the other.

Where an item of an array or map begins is known only once the one before it has been passed, so Python steps from item
to item by a writer's type. Then all items of all values are decoded together. A value that is wrong is found, named and
left out; it costs no other.
"""

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.builtin.converter.avro_column import column as c
from fencepost.builtin.converter.avro_column.column import FAULTS, Binary, Column, Cursor, reason
from fencepost.builtin.converter.avro_column.kind import (
    PER_UNIT,
    PLAIN,
    AvroSchemaError,
    Logical,
    arrow_type,
    default_of,
    logical_of,
    member_names,
    some_of,
)
from fencepost.builtin.converter.registry.avro.parsing import MISSING, PRIMITIVES, AvroField, AvroType
from fencepost.record.type_table import MOST_DIGITS

Step = Callable[[memoryview, int], int]
"""Returns where a type's value ends that begins there. Raises IndexError or ValueError if it does not end."""

_LONG = pa.int64()
_MOST_EMPTY = 1_000_000  # items that take no bytes: a few bytes may announce any number of them


class Items(Column):
    """An array."""

    def __init__(self, step: Step, item: Column, type_: pa.ListType) -> None:
        """`step` passes one item, and `item` reads it."""
        self._step = step
        self._item = item
        self.type = type_

    def read(self, at: Cursor) -> pa.Array:
        ends, items = walked(at, self._step)
        column = pa.nulls(0, self._item.type) if items is None else self._item.read(items)
        return pa.ListArray.from_arrays(ends, column, type=self.type)

    def skip(self, at: Cursor) -> None:
        walked(at, self._step)


class Entries(Column):
    """A map: each of its items is a text and a value."""

    def __init__(self, step: Step, item: Column, type_: pa.MapType) -> None:
        """`step` passes one value, and `item` reads it."""
        self._step: Step = lambda data, at: step(data, _past_binary(data, at))
        self._item = item
        self.type = type_

    def read(self, at: Cursor) -> pa.Array:
        ends, items = walked(at, self._step)
        if items is None:
            keys, column = pa.nulls(0, pa.string()), pa.nulls(0, self._item.type)
        else:
            keys, column = Binary(pa.string()).read(items), self._item.read(items)
        return pa.MapArray.from_arrays(ends, keys, column, type=self.type)

    def skip(self, at: Cursor) -> None:
        walked(at, self._step)


def walked(at: Cursor, step: Step) -> tuple[pa.Array, Cursor | None]:
    """Return how many items there are up to each value's last, and a cursor over all items, if any."""
    data = memoryview(at.data).cast("B")
    begins: list[int] = []
    limits: list[int] = []
    passed: list[int] = []
    counts = [0]
    for start, limit in zip(at.at.to_pylist(), at.limits.to_pylist(), strict=True):
        place = start
        while True:
            count, place = _number(data, place)
            if count < 0:  # the block's size in bytes follows
                count, place = -count, _number(data, place)[1]
            if not count:
                break
            _ensure_modest(count, limit - place)
            for _ in range(count):
                begins.append(place)
                place = step(data, place)
                if place > limit:
                    raise ValueError("the value ends too early")
                limits.append(place)
        passed.append(place)
        counts.append(len(begins))
    at.at = pa.array(passed, _LONG)
    items = Cursor(at.data, pa.array(begins, _LONG), pa.array(limits, _LONG)) if begins else None
    return pa.array(counts, pa.int32()), items


def step_of(writer: AvroType) -> Step:
    """Return what passes one value of a type."""
    match writer.kind:
        case "null":
            return lambda _, at: at
        case "boolean":
            return lambda _, at: at + 1
        case "int" | "long" | "enum":
            return lambda data, at: _number(data, at)[1]
        case "float":
            return lambda _, at: at + 4
        case "double":
            return lambda _, at: at + 8
        case "fixed":
            size = writer.size
            return lambda _, at: at + size
        case "array":
            return _past_items(step_of(writer.items))
        case "map":
            step = step_of(writer.items)
            return _past_items(lambda data, at: step(data, _past_binary(data, at)))
        case "record":
            return _past_all([step_of(field.type) for field in writer.fields])
        case "union":
            return _past_one([step_of(branch) for branch in writer.members])
    return _past_binary


def _past_all(steps: Sequence[Step]) -> Step:
    def past(data: memoryview, at: int) -> int:
        for step in steps:
            at = step(data, at)
        return at

    return past


def _past_one(steps: Sequence[Step]) -> Step:
    def past(data: memoryview, at: int) -> int:
        chosen, at = _number(data, at)
        if chosen < 0:
            raise ValueError("the number of a union's branch is wrong")
        return steps[chosen](data, at)

    return past


def _past_items(step: Step) -> Step:
    def past(data: memoryview, at: int) -> int:
        while True:
            count, at = _number(data, at)
            if count < 0:
                size, at = _number(data, at)
                at += _right(size)
                continue
            if not count:
                return at
            _ensure_modest(count, len(data) - at)
            for _ in range(count):
                at = step(data, at)

    return past


def _past_binary(data: memoryview, at: int) -> int:
    size, at = _number(data, at)
    return at + _right(size)


def _ensure_modest(count: int, left: int) -> None:
    if count > max(left, _MOST_EMPTY):
        raise ValueError("it announces more items than there are")


def _right(size: int) -> int:
    if size < 0:
        raise ValueError("a length is wrong")
    return size


def _number(data: memoryview, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), at + 1
    found, shift = byte & 0x7F, 7
    while byte >= 0x80:
        at += 1
        byte = data[at]
        if shift > 63:
            raise ValueError("a number does not end")
        found |= (byte & 0x7F) << shift
        shift += 7
    return found >> 1 ^ -(found & 1), at + 1


_LEAVES = PRIMITIVES | {"fixed"}
_WIDER: Mapping[str, frozenset[str]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_FAMILIES = ("time-", "timestamp-", "local-timestamp-")
_MIDNIGHT, _DAY = pa.scalar(0, _LONG), pa.scalar(86_400_000_000_000, _LONG)

_SIZE = 16
_BINARY = pa.binary()
# What fills a number up, by its size and its sign: at 2 * size, + 1 for a negative one.
_FILL = pa.array([sign * (_SIZE - size) for size in range(_SIZE + 1) for sign in (b"\0", b"\xff")], _BINARY)
_NOTHING = pa.scalar(b"", _BINARY)
_TWO, _MOST = pa.scalar(2, pa.int32()), pa.scalar(_SIZE, pa.int32())


def resolved(writer: AvroType, reader: AvroType, path: str = "") -> c.Column:
    """Return what decodes values of the writer's type as the reader's. Raises AvroSchemaError if nothing can."""
    if writer.kind == "union":
        return c.Union([_branch(each, reader, path) for each in writer.members], arrow_type(reader))
    if reader.kind == "union":
        return _into_union(writer, reader, path)
    if writer.kind in _LEAVES and reader.kind in _LEAVES:
        is_null = writer.kind == reader.kind == "null"
        return c.Null(arrow_type(reader)) if is_null else _leaf(writer, reader, path)
    if writer.kind != reader.kind:
        raise _unfit(writer, reader, path)
    if writer.kind == "record":
        return _struct(writer, reader, path)
    if writer.kind == "enum":
        known, default = set(reader.symbols), reader.props.get("default")
        return c.Enum([each if each in known else default for each in writer.symbols])
    item = resolved(writer.items, reader.items, f"{path}[]")
    return (Items if writer.kind == "array" else Entries)(step_of(writer.items), item, arrow_type(reader))


def _branch(writer: AvroType, reader: AvroType, path: str) -> c.Column:
    """Return the decoder of a branch of the writer's union: if there is none, values that have it are wrong."""
    try:
        return resolved(writer, reader, path)
    except AvroSchemaError as error:
        return c.Unfit(arrow_type(reader), str(error))


def _into_union(writer: AvroType, reader: AvroType, path: str) -> c.Column:
    type_, some = arrow_type(reader), some_of(reader)
    if writer.kind == "null":
        if len(some) == len(reader.members):
            raise _unfit(writer, reader, path)
        return c.Null(type_)
    if len(some) == 1:
        return resolved(writer, some[0], path)
    names = member_names(reader)
    for is_wanted in (_is_same, _is_alike, lambda *_: True):
        for name, branch in zip(names, some, strict=True):
            if not is_wanted(writer, branch):
                continue
            try:
                return c.Member(resolved(writer, branch, path), name, type_)
            except AvroSchemaError:
                continue
    raise _unfit(writer, reader, path)


def _is_same(writer: AvroType, branch: AvroType) -> bool:
    return (writer.kind, writer.name) == (branch.kind, branch.name)


def _is_alike(writer: AvroType, branch: AvroType) -> bool:
    last, other = ((each.name or "").rpartition(".")[2] for each in (writer, branch))
    return writer.kind == branch.kind and last == other


def _struct(writer: AvroType, reader: AvroType, path: str) -> c.Column:
    names = {each.name for each in writer.fields}
    places = {_name_in(names, field): place for place, field in enumerate(reader.fields)}
    fields: list[tuple[str, c.Column, int | None]] = []
    for own in writer.fields:
        place, under = places.pop(own.name, None), f"{path}.{own.name}" if path else own.name
        wanted = own.type if place is None else reader.fields[place].type
        fields.append((own.name, resolved(own.type, wanted, under), place))
    for name, place in places.items():
        field = reader.fields[place]
        if field.default is MISSING:
            under = f"{path}.{field.name}" if path else field.name
            raise AvroSchemaError(f"{under}: the writer's schema does not have it, and there is no default")
        fields.append((name, c.Constant(default_of(field)), place))
    return c.Struct(fields, arrow_type(reader))


def _name_in(names: set[str], field: AvroField) -> str:
    return next((each for each in (field.name, *field.aliases) if each in names), field.name)


def _leaf(writer: AvroType, reader: AvroType, path: str) -> c.Column:
    own, logical = logical_of(writer), _logical(writer, reader, path)
    if "fixed" in (writer.kind, reader.kind):
        if writer.kind == reader.kind and writer.size == reader.size:
            return _converted(c.Fixed(writer.size), logical, reader)
        if logical is not None and logical.name == "decimal" and own is not None:
            raw = c.Fixed(writer.size) if writer.kind == "fixed" else c.Binary(pa.binary())
            return _converted(raw, logical, reader)
        raise _unfit(writer, reader, path)
    if writer.kind != reader.kind and reader.kind not in _WIDER.get(writer.kind, ()):
        raise _unfit(writer, reader, path)
    if logical is not None and own is not None:  # the unit of the writer's may be another one
        return _converted(_primitive(writer.kind, writer.kind), own, reader)
    return _converted(_primitive(writer.kind, reader.kind), logical, reader)


def _logical(writer: AvroType, reader: AvroType, path: str) -> Logical | None:
    """Return the reader's logical type. Raises AvroSchemaError if the writer's does not mean the same."""
    theirs, own = logical_of(writer), logical_of(reader)
    if theirs is None or own is None or theirs == own:
        return own
    is_one_family = any(theirs.name.startswith(f) and own.name.startswith(f) for f in _FAMILIES)
    is_wider = theirs.name == own.name == "decimal" and theirs.scale == own.scale
    if not is_one_family and not is_wider:
        raise _unfit(writer, reader, path)
    return own


def _primitive(writer: str, reader: str) -> c.Column:
    own, wanted = PLAIN[writer], PLAIN[reader]
    if writer == "boolean":
        return c.Boolean()
    if writer in ("int", "long"):
        return c.Number(own, wanted)
    if writer in ("float", "double"):
        return c.Floating(own, wanted)
    return c.Binary(wanted)


def _converted(raw: c.Column, logical: Logical | None, reader: AvroType) -> c.Column:
    type_ = arrow_type(reader)
    if logical is None or logical.name == "uuid":
        return raw
    if logical.name == "decimal":
        return c.Converted(raw, type_, lambda found: _decimals(found, type_))
    if logical.name == "date":
        return c.Converted(raw, type_, lambda found: found.view(type_))
    factor = pa.scalar(PER_UNIT[logical.name], _LONG)
    return c.Converted(raw, type_, lambda found: _scaled(found, factor, type_))


def _decimals(found: pa.Array, type_: pa.Decimal128Type) -> pa.Array:
    """Return numbers of any size, the highest byte first, as Arrow's decimals, of 16 bytes with the lowest first.

    Raises ArrowInvalid, OverflowError or ValueError for a number with too many digits.
    """
    sizes = pc.binary_length(found)
    if pc.any(pc.greater(sizes, _MOST)).as_py():
        numbers = (int.from_bytes(each, "big", signed=True) for each in found.to_pylist())
        found = pa.array([number.to_bytes(_SIZE, "big", signed=True) for number in numbers], _BINARY)
        sizes = pc.binary_length(found)
    first = pc.binary_slice(found, 0, 1)
    is_negative = pc.greater_equal(first, pa.scalar(b"\x80", _BINARY))
    fill = _FILL.take(pc.add(pc.multiply(sizes, _TWO), is_negative.cast(pa.int32())))
    whole = pc.binary_join_element_wise(pc.binary_reverse(found), fill, _NOTHING)
    made = pa.Array.from_buffers(pa.decimal128(MOST_DIGITS, type_.scale), len(found), [None, whole.buffers()[2]])
    made.validate(full=True)  # 16 bytes hold more than 38 digits
    return made.cast(type_)


def _scaled(found: pa.Array, factor: pa.Scalar, type_: pa.DataType) -> pa.Array:
    """Return times in their column's unit. Raises ArrowInvalid beyond what it holds, and for no time of day."""
    made = pc.multiply_checked(found.cast(_LONG), factor)
    if pa.types.is_time(type_) and not pc.all(pc.and_(pc.greater_equal(made, _MIDNIGHT), pc.less(made, _DAY))).as_py():
        raise ValueError("it is not a time of day")
    return made.view(type_)


def _unfit(writer: AvroType, reader: AvroType, path: str) -> AvroSchemaError:
    return AvroSchemaError(f"{path or 'the value'}: {_said(writer)} cannot be read as {_said(reader)}")


def _said(of: AvroType) -> str:
    if of.kind == "union":
        return "a union of " + ", ".join(map(_said, of.members))
    logical = logical_of(of)
    return " ".join(filter(None, (of.kind, of.name, f"({logical.name})" if logical else "")))


_INT64, _OFFSET = pa.int64(), pa.int32()
_LONGEST = 500


class AvroColumn:
    """Decodes many batches."""

    def __init__(self, writer: AvroType, reader: AvroType) -> None:
        """Raise AvroSchemaError if no value of the writer's schema can be read as the reader's."""
        self._column = resolved(writer, reader)

    @property
    def type(self) -> pa.DataType:
        return self._column.type

    def decoded(self, values: pa.Array, after: int = 0) -> tuple[pa.Array, Mapping[int, str]]:
        """Return the column of values, and by number the faults of the values that have become null.

        `values` are bytes without nulls; Avro begins after the first `after` bytes, which each value has. Bytes after
        the end of a value are ignored, as by Kafka Connect.
        """
        if not len(values):
            return pa.nulls(0, self.type), {}
        _, offsets, data = values.buffers()
        borders = pa.Array.from_buffers(_OFFSET, len(values) + 1, [None, offsets], offset=values.offset).cast(_INT64)
        reading = _Reading(self._column, data or pa.py_buffer(b""), borders, after)
        return reading.read(0, len(values)), reading.faults


class _Reading:
    def __init__(self, column: Column, data: pa.Buffer, borders: pa.Array, after: int) -> None:
        self._column = column
        self._data = data
        self._starts = pc.add(borders[:-1], pa.scalar(after, _INT64))
        self._ends = borders[1:]
        self.faults: dict[int, str] = {}

    def read(self, first: int, end: int) -> pa.Array:
        """Return the column of some values. If one is wrong, halve them until it is found."""
        at = self._alone(first) if end - first == 1 else self._together(first, end)
        try:
            found = self._column.read(at)
            at.ensure_within()
        except FAULTS as error:
            if end - first == 1:
                self.faults[first] = reason(error)[:_LONGEST]
                return pa.nulls(1, self._column.type)
            middle = (first + end) // 2
            return pa.concat_arrays([self.read(first, middle), self.read(middle, end)])
        return found

    def _together(self, first: int, end: int) -> Cursor:
        return Cursor(self._data, self._starts[first:end], self._ends[first:end])

    def _alone(self, number: int) -> Cursor:
        """Return a cursor that has only the bytes of one value, so that the field is found that goes beyond them."""
        start, end = self._starts[number].as_py(), self._ends[number].as_py()
        size = max(0, end - start)
        return Cursor(self._data.slice(start, size), pa.array([0], _INT64), pa.array([size], _INT64))
