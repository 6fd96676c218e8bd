"""Reads what Java's `ValueWriter` has written, in the form that `value_writer` describes."""

import datetime as dt
from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import Any

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.builtin.java.client import value_writer as form
from fencepost.record import Field
from fencepost.record.java_value import DAY_MS, EPOCH_DAY, moment
from fencepost.record.schema import DATE, TIME


class ValueReader:
    """Reads columns, in the order in which they were written."""

    def __init__(self, data: memoryview | bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def column(self, schema: Schema | None, count: int) -> list[Any]:
        """Return values, None for those that are null."""
        present = self._take(count) if self._take(1)[0] else None
        there = count if present is None else sum(present)
        values = self._union(there) if schema is None else self._typed(schema, there)
        if present is None:
            return values
        each_value = iter(values)
        return [next(each_value) if each else None for each in present]

    def _typed(self, schema: Schema, count: int) -> list[Any]:
        if form.is_decimal(schema):
            return self._decimals(count)
        found = self._plain(schema, count)
        return [_time_of(schema, value) for value in found] if form.is_time(schema) else found

    def _plain(self, schema: Schema, count: int) -> list[Any]:
        kind = schema.type
        if kind in form.CODES:
            return self._numbers(form.CODES[kind], count)
        if kind is SchemaType.BOOLEAN:
            return [each != 0 for each in self._take(count)]
        if kind is SchemaType.STRING:
            return self._strings(count)
        if kind is SchemaType.BYTES:
            return self._byte_strings(count)
        if kind is SchemaType.ARRAY:
            return self._lists(schema.value_schema, count)
        if kind is SchemaType.MAP:
            return self._maps(schema.key_schema, schema.value_schema, count)
        names = [field.name for field in schema.fields]
        if not names:
            return [{} for _ in range(count)]
        columns = [self.column(field.schema, count) for field in schema.fields]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _numbers(self, code: str, count: int) -> list[Any]:
        numbers = array(code)
        numbers.frombytes(self._take(count * numbers.itemsize))
        return numbers.tolist()

    def _strings(self, count: int) -> list[Any]:
        ends = self.ends(count)
        data = self._take(2 * ends[-1])
        text = bytes(data).decode("utf-16-le", "surrogatepass")
        if len(text) == ends[-1]:  # every unit is a character
            return [text[start:end] for start, end in pairwise(ends)]
        return [bytes(data[2 * start : 2 * end]).decode("utf-16-le", "surrogatepass") for start, end in pairwise(ends)]

    def _byte_strings(self, count: int) -> list[Any]:
        ends = self.ends(count)
        data = bytes(self._take(ends[-1]))
        return [data[start:end] for start, end in pairwise(ends)]

    def _lists(self, items: Schema | None, count: int) -> list[Any]:
        ends = self.ends(count)
        values = self.column(items, ends[-1])
        return [values[start:end] for start, end in pairwise(ends)]

    def _maps(self, keys: Schema | None, members: Schema | None, count: int) -> list[Any]:
        ends = self.ends(count)
        names, values = self.column(keys, ends[-1]), self.column(members, ends[-1])
        try:
            return [dict(zip(names[start:end], values[start:end], strict=True)) for start, end in pairwise(ends)]
        except TypeError as error:
            raise RecordError(f"a map from Java has a key that Python cannot have: {error}") from error

    def _union(self, count: int) -> list[Any]:
        kinds = bytes(self._take(count))
        if count and kinds.count(kinds[0]) == count:
            return _UNION[kinds[0]](self, count)
        found = {kind: iter(_UNION[kind](self, kinds.count(kind))) for kind in sorted(set(kinds))}
        return [next(found[kind]) for kind in kinds]

    def _large_integers(self, count: int) -> list[Any]:
        return [int.from_bytes(each, "big", signed=True) for each in self._byte_strings(count)]

    def _decimals(self, count: int) -> list[Any]:
        scales = self._numbers("i", count)
        return [
            Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))
            for scale, number in zip(scales, self._large_integers(count), strict=True)
        ]

    def definition(self) -> Schema:
        """Read a schema."""
        kind, flags = form.TYPES[self._take(1)[0]], self._take(1)[0]
        name = self.text() if flags & form.HAS_NAME else None
        version = self.integer() if flags & form.HAS_VERSION else None
        doc = self.text() if flags & form.HAS_DOC else None
        parameters = tuple((self.text(), self.text()) for _ in range(self.integer()))
        keys = self.definition() if kind is SchemaType.MAP else None
        values = self.definition() if kind in (SchemaType.MAP, SchemaType.ARRAY) else None
        fields: tuple[Field, ...] = ()
        if kind is SchemaType.STRUCT:
            fields = tuple(Field(self.text(), self.definition()) for _ in range(self.integer()))
        is_optional = bool(flags & form.OPTIONAL)
        plain = Schema(kind, is_optional, None, name, version, doc, parameters, fields, keys, values)
        if not flags & form.HAS_DEFAULT:
            return plain
        [default] = self._typed(plain, 1)
        return Schema(kind, is_optional, default, name, version, doc, parameters, fields, keys, values)

    def text(self) -> str:
        return bytes(self._take(2 * self.integer())).decode("utf-16-le", "surrogatepass")

    def integer(self) -> int:
        return int.from_bytes(self._take(4), "little", signed=True)

    def integers(self, count: int) -> Sequence[int]:
        return self._numbers("i", count)

    def ends(self, count: int) -> list[int]:
        """Read lengths. Returns where each item ends, after a 0."""
        return list(accumulate(self._numbers("i", count), initial=0))

    def bytes(self) -> bytes:
        return bytes(self._take(self.integer()))

    def _take(self, count: int) -> memoryview:
        start, self._at = self._at, self._at + count
        return self._data[start : self._at]


def _time_of(schema: Schema, number: Any) -> Any:
    """Return a date or time; the number that stands for it if Python has no such one."""
    try:
        if schema.name == DATE.name:
            return EPOCH_DAY + dt.timedelta(days=number)
        if schema.name == TIME.name:
            return moment(number).time() if 0 <= number < DAY_MS else number
        return moment(number)
    except (OverflowError, ValueError):
        return number


def _time(ms: int) -> Any:
    try:
        return moment(ms)
    except ValueError as error:
        raise RecordError(f"a time from Java cannot be one of Python's: {error}") from error


_UNION: dict[int, Callable[[ValueReader, int], list[Any]]] = {
    form.BOOLEAN: lambda reader, count: [each != 0 for each in reader._take(count)],
    form.INTEGER: lambda reader, count: reader._numbers("q", count),
    form.FLOAT: lambda reader, count: reader._numbers("d", count),
    form.TEXT: ValueReader._strings,
    form.BYTES: ValueReader._byte_strings,
    form.LIST: lambda reader, count: reader._lists(None, count),
    form.MAP: lambda reader, count: reader._maps(None, None, count),
    form.LARGE_INTEGER: ValueReader._large_integers,
    form.DECIMAL: ValueReader._decimals,
    form.TIME: lambda reader, count: [_time(ms) for ms in reader._numbers("q", count)],
}
