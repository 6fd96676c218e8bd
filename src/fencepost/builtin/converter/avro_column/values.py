"""Values of one writer's schema as a column. A value that is wrong is found, named and left out; it costs no other."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.builtin.converter.avro_column.column import FAULTS, Column, Cursor, reason
from fencepost.builtin.converter.avro_column.resolution import resolved
from fencepost.builtin.converter.registry.avro.parsing import AvroType

_LONG, _OFFSET = pa.int64(), pa.int32()
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
        borders = pa.Array.from_buffers(_OFFSET, len(values) + 1, [None, offsets], offset=values.offset).cast(_LONG)
        reading = _Reading(self._column, data or pa.py_buffer(b""), borders, after)
        return reading.read(0, len(values)), reading.faults


class _Reading:
    def __init__(self, column: Column, data: pa.Buffer, borders: pa.Array, after: int) -> None:
        self._column = column
        self._data = data
        self._starts = pc.add(borders[:-1], pa.scalar(after, _LONG))
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
        return Cursor(self._data.slice(start, size), pa.array([0], _LONG), pa.array([size], _LONG))
