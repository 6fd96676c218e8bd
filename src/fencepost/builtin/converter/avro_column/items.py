"""Columns of arrays and maps.

Where an item begins is known only once the one before it has been passed, so Python steps from item to item by a
writer's type. Then all items of all values are decoded together.
"""

from collections.abc import Callable, Sequence

import pyarrow as pa

from fencepost.builtin.converter.avro_column.column import Binary, Column
from fencepost.builtin.converter.avro_column.cursor import Cursor
from fencepost.builtin.converter.registry.avro.parsing import AvroType

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
