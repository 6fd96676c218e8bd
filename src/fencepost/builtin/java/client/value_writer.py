"""Connect's values in a form that is the same on both sides of a host's socket, column by column.

All numbers are little-endian. A *column* of values that share a schema has a byte that says whether some are null,
then, if so, a byte for each value (0: null), and then the others:

- numbers and booleans: one after the other, in the width of their type; dates and times as the numbers that stand for
  them; decimals as those without a schema;
- text: the lengths (int32, in UTF-16 units), then all characters as UTF-16, which can hold halves of characters, too;
- bytes: the lengths (int32), then all bytes;
- arrays: the lengths, then one column of all items; maps: the sizes, then a column of the keys and one of the values;
- structs: a column for each field, in order;
- without a schema: a byte for the kind of each value (`_KINDS`), then the values of each kind together, in the order of
  the kinds, as those of a schema. Whole numbers are int64, or bytes if they are larger; decimals are a column of scales
  (int32) and one of bytes; times are milliseconds since 1970.

Columns are in columns at most `MOST_DEPTH` deep: then neither side needs more calls to read them than it has.

Java's `ValueWriter` and `ValueReader` are the other side.
"""

import datetime as dt
import struct
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from operator import itemgetter
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.record.java_value import EPOCH_DAY, big_integer, milliseconds
from fencepost.record.literal import MOST_DIGITS
from fencepost.record.schema import DATE, TIMESTAMP
from fencepost.record.schema import TIME as TIME_OF_DAY
from fencepost.record.type_table import DECIMAL_NAME

CODES = {
    SchemaType.INT8: "b",
    SchemaType.INT16: "h",
    SchemaType.INT32: "i",
    SchemaType.INT64: "q",
    SchemaType.FLOAT32: "f",
    SchemaType.FLOAT64: "d",
}
TYPES = tuple(SchemaType)
"""In the order of Java's enum."""
BOOLEAN, INTEGER, FLOAT, TEXT, BYTES, LIST, MAP, LARGE_INTEGER, DECIMAL, TIME = range(1, 11)
OPTIONAL, HAS_DEFAULT, HAS_NAME, HAS_VERSION, HAS_DOC = 1, 2, 4, 8, 16
MOST_DEPTH = 500
"""How deep values may be, also in Java's `ValueForm`: to read a level takes up to 6 of the 4,000 calls of a slot."""
UNWRITABLE = (TypeError, ValueError, OverflowError, AttributeError, KeyError, RecursionError, struct.error)
"""What a value raises that does not fit its schema, or has no form."""
_MOST_UNSEEN_DEPTH, _MOST_UNSEEN_VALUES = 12, 10_000
"""From here on containers are looked at before they are written."""
_TIMES = {(one.name, one.type) for one in (DATE, TIME_OF_DAY, TIMESTAMP)}


def is_time(schema: Schema) -> bool:
    return (schema.name, schema.type) in _TIMES


def is_decimal(schema: Schema) -> bool:
    return schema.name == DECIMAL_NAME and schema.type is SchemaType.BYTES


class ValueWriter:
    """Writes columns. What does not fit its schema raises RecordError, and what was written is of no use then."""

    def __init__(self) -> None:
        self._parts: list[bytes | array[Any]] = []
        self._depth = 0
        self._is_shallow = False  # what is being written was looked at

    def taken(self) -> bytes:
        return b"".join(self._parts)

    def column(self, schema: Schema | None, values: Sequence[Any]) -> None:
        """Write values, some of which may be None."""
        self._descend()
        present = [value is not None for value in values]
        if all(present):
            self._parts.append(b"\0")
        else:
            self._parts += [b"\1", bytes(present)]
            values = [value for value in values if value is not None]
        if schema is None:
            self._union(values)
        else:
            try:
                self._typed(schema, values)
            except RecordError:
                raise
            except UNWRITABLE as error:
                raise RecordError(f"Invalid value for schema {schema.name or schema.type.value}: {error}") from error
        self._depth -= 1

    def _descend(self) -> None:
        self._depth += 1
        _require_depth(self._depth)

    def _typed(self, schema: Schema, values: Sequence[Any]) -> None:
        kind = schema.type
        if is_time(schema):
            values = [_number_of(value) for value in values]
        elif is_decimal(schema):
            self._decimals([_scaled(schema, value) for value in values])
            return
        if kind in CODES:
            self._numbers(CODES[kind], values)
        elif kind is SchemaType.BOOLEAN:
            self._parts.append(bytes([_boolean(value) for value in values]))
        elif kind is SchemaType.STRING:
            self._strings(values)
        elif kind is SchemaType.BYTES:
            self._byte_strings(values)
        elif kind is SchemaType.ARRAY:
            self._lists(schema.value_schema, values)
        elif kind is SchemaType.MAP:
            self._maps(schema.key_schema, schema.value_schema, values)
        else:
            self._structs(schema, values)

    def _structs(self, schema: Schema, values: Sequence[Any]) -> None:
        for value in values:
            if not isinstance(value, Mapping):
                raise RecordError(f"Invalid value for struct {schema.name or ''}: {_name(value)}")
        for field in schema.fields:
            try:
                members = list(map(itemgetter(field.name), values))
            except KeyError:
                members = [value.get(field.name) for value in values]
            self.column(field.schema, members)

    def _numbers(self, code: str, values: Sequence[Any]) -> None:
        try:
            numbers = array(code, values)
        except (TypeError, OverflowError) as error:
            raise RecordError(f"a number does not fit its type: {error}") from error
        self._parts.append(numbers)

    def _strings(self, values: Sequence[Any]) -> None:
        data = [value.encode("utf-16-le", "surrogatepass") for value in map(str.__str__, values)]
        self._parts.append(array("i", [len(each) // 2 for each in data]))
        self._parts += data

    def _byte_strings(self, values: Sequence[Any]) -> None:
        data = [_bytes(value) for value in values]
        self._parts.append(array("i", map(len, data)))
        self._parts += data

    def _lists(self, items: Schema | None, values: Sequence[Any]) -> None:
        for value in values:
            if not isinstance(value, Sequence) or isinstance(value, str | bytes):
                raise RecordError(f"Invalid value for array: {_name(value)}")
        self._parts.append(array("i", map(len, values)))
        self.column(items, list(chain.from_iterable(values)))

    def _maps(self, keys: Schema | None, members: Schema | None, values: Sequence[Any]) -> None:
        for value in values:
            if not isinstance(value, Mapping):
                raise RecordError(f"Invalid value for map: {_name(value)}")
        names = list(chain.from_iterable(values))
        code = "f" if keys is not None and keys.type is SchemaType.FLOAT32 else "d"
        if any(issubclass(kind, dt.date | dt.time | float) for kind in set(map(type, names))):
            for value in values:
                _require_distinct(value, code)
        self._parts.append(array("i", map(len, values)))
        self.column(keys, names)
        self.column(members, list(chain.from_iterable(value.values() for value in values)))

    def _union(self, values: Sequence[Any]) -> None:
        kinds = [_kind(value) for value in values]
        self._parts.append(bytes(kinds))
        was_shallow = self._is_shallow
        is_unseen = self._depth > _MOST_UNSEEN_DEPTH or len(values) > _MOST_UNSEEN_VALUES
        if is_unseen and not was_shallow and (LIST in kinds or MAP in kinds):
            _require_shallow(values, self._depth, set())
            self._is_shallow = True
        for kind in sorted(set(kinds)):
            chosen = values if kinds.count(kind) == len(kinds) else [
                value for value, each in zip(values, kinds, strict=True) if each == kind
            ]  # fmt: skip
            _UNION[kind](self, chosen)
        self._is_shallow = was_shallow

    def _large_integers(self, values: Sequence[int]) -> None:
        self._byte_strings([big_integer(value) for value in values])

    def _decimals(self, values: Sequence[Decimal]) -> None:
        scales, digits = [], []
        for value in values:
            sign, places, exponent = value.as_tuple()
            number = int("".join(map(str, places)) or "0")
            scales.append(-int(exponent))
            digits.append(big_integer(-number if sign else number))
        self._numbers("i", scales)
        self._byte_strings(digits)

    def definition(self, schema: Schema) -> None:
        """Write a schema."""
        self._descend()
        flags = (
            OPTIONAL * schema.is_optional
            + HAS_DEFAULT * (schema.default is not None)
            + HAS_NAME * (schema.name is not None)
            + HAS_VERSION * (schema.version is not None)
            + HAS_DOC * (schema.doc is not None)
        )
        self._parts.append(bytes([TYPES.index(schema.type), flags]))
        if schema.name is not None:
            self.text(schema.name)
        if schema.version is not None:
            self.integer(schema.version)
        if schema.doc is not None:
            self.text(schema.doc)
        self.integer(len(schema.parameters))
        for pair in schema.parameters:
            for text in pair:
                self.text(text)
        for part in (schema.key_schema, schema.value_schema):
            if part is not None:
                self.definition(part)
        if schema.type is SchemaType.STRUCT:
            self.integer(len(schema.fields))
            for field in schema.fields:
                self.text(field.name)
                self.definition(field.schema)
        if schema.default is not None:
            self._typed(schema, [schema.default])
        self._depth -= 1

    def text(self, text: str) -> None:
        data = text.encode("utf-16-le", "surrogatepass")
        self.integer(len(data) // 2)
        self._parts.append(data)

    def integer(self, number: int) -> None:
        self._parts.append(number.to_bytes(4, "little", signed=True))

    def integers(self, numbers: Sequence[int]) -> None:
        self._parts.append(array("i", numbers))

    def bytes(self, data: bytes) -> None:
        self.integer(len(data))
        self._parts.append(data)


def _require_depth(depth: int) -> None:
    if depth > MOST_DEPTH:
        raise RecordError(f"what is nested more than {MOST_DEPTH} levels deep cannot be handed to Java")


def _require_shallow(values: Iterable[Any], depth: int, seen: set[int]) -> None:
    """Refuse values at a depth that contain themselves, or are nested too deeply.

    Columns are written breadth first: what contains itself several times would outgrow memory before it is too deep.
    This goes depth first, and through each container once.
    """
    _require_depth(depth)
    for value in values:
        kind = _kind(value) if value is not None else None
        if kind in (LIST, MAP) and id(value) not in seen:
            _require_shallow(value.values() if kind == MAP else value, depth + 1, seen)
            seen.add(id(value))


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise RecordError(f"Invalid value for boolean: {_name(value)}")
    return value


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise RecordError(f"Invalid value for bytes: {_name(value)}")
    return bytes(value)


def _kind(value: Any) -> int:
    found = _KINDS.get(type(value))
    if found is None:
        found = next((kind for of, kind in _KINDS.items() if isinstance(value, of)), None)
    if found is None:
        raise RecordError(f"a {type(value).__name__} without a schema cannot be handed to Java: {_name(value)}")
    if found == INTEGER and not -(2**63) <= value < 2**63:
        return LARGE_INTEGER
    if found == DECIMAL and not value.is_finite():
        raise RecordError(f"a decimal that is not finite cannot be handed to Java: {value}")
    return found


def _number_of(value: Any) -> Any:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return (value - EPOCH_DAY).days
    return milliseconds(value) if isinstance(value, dt.datetime | dt.time) else value


def _require_distinct(keys: Iterable[Any], code: str) -> None:
    """Refuse times and floats as keys of a map that are one in Java, which would have the last one's value only."""
    times = [milliseconds(key) for key in keys if isinstance(key, dt.date | dt.time)]
    if len(set(times)) < len(times):
        raise RecordError("a map with keys that are the same time in Java cannot be handed to it")
    floats = [str(each) for each in array(code, [key for key in keys if isinstance(key, float)])]  # all NaN are one
    if len(set(floats)) < len(floats):
        raise RecordError("a map with keys that are the same number in Java cannot be handed to it")


def _scaled(schema: Schema, value: Any) -> Decimal:
    """Return a decimal with as many digits behind the point as its schema says, unless it has more."""
    if not isinstance(value, Decimal) or not value.is_finite():
        raise RecordError(f"Invalid value for decimal: {_name(value)}")
    sign, digits, exponent = value.as_tuple()
    scale = int(dict(schema.parameters).get("scale", -int(exponent)))
    zeros = int(exponent) + scale
    if zeros > MOST_DIGITS:
        raise RecordError(f"Invalid value for decimal: {value} would get {zeros} zeros")
    return Decimal((sign, (*digits, *(0,) * zeros), -scale)) if zeros > 0 else value


def _name(value: Any) -> str:
    """Return what a value is, for a message: the value itself may be a secret."""
    return type(value).__name__


_KINDS: dict[type, int] = {
    bool: BOOLEAN,
    int: INTEGER,
    float: FLOAT,
    str: TEXT,
    bytes: BYTES,
    bytearray: BYTES,
    memoryview: BYTES,
    Decimal: DECIMAL,
    dt.datetime: TIME,
    dt.date: TIME,
    dt.time: TIME,
    list: LIST,
    tuple: LIST,
    dict: MAP,
    Mapping: MAP,
}
_UNION: dict[int, Callable[[ValueWriter, Sequence[Any]], None]] = {
    BOOLEAN: lambda writer, values: writer._parts.append(bytes(values)),
    INTEGER: lambda writer, values: writer._numbers("q", values),
    FLOAT: lambda writer, values: writer._numbers("d", values),
    TEXT: ValueWriter._strings,
    BYTES: ValueWriter._byte_strings,
    LIST: lambda writer, values: writer._lists(None, values),
    MAP: lambda writer, values: writer._maps(None, None, values),
    LARGE_INTEGER: ValueWriter._large_integers,
    DECIMAL: ValueWriter._decimals,
    TIME: lambda writer, values: writer._numbers("q", [milliseconds(value) for value in values]),
}
