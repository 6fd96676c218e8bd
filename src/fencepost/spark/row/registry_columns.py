"""Makes columns of values with schemas in a registry, on executors: batch by batch, each schema's values at once."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from fencepost.api import RecordError
from fencepost.spark.row.kafka_columns import MISFIT_REASON, PARSED, READ
from fencepost.spark.row.registry_schema import ReaderSchema, ValueColumn

PREFIX = 5
"""The bytes before a value: 0, and the id of its schema, the highest byte first."""

_LONG, _TEXT = pa.int64(), pa.string()
_ONE, _NULL = pa.scalar(1, _LONG), pa.scalar(None, _LONG)
_MAGIC = b"\0"


class RegistryColumns:
    """Converts many batches of one topic."""

    def __init__(
        self,
        reader: ReaderSchema,
        schema_of: Callable[[int], ReaderSchema],
        type_: pa.StructType,
        *,
        keeps_read: bool = False,
    ) -> None:
        """`type_` is that of the made structs: the reader's fields, and any that are null."""
        self._reader = reader
        self._schema_of = schema_of
        self._type = type_
        self._keeps_read = keeps_read
        self._columns: dict[int, ValueColumn | str] = {}

    def made(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with MISFIT_REASON, READ if it is kept, and PARSED; its `value` is null, being made use of."""
        values = batch["value"]
        structs, reasons = self.structs(values)
        arrays = {name: batch[name] for name in batch.schema.names}
        arrays["value"] = pa.nulls(len(values), values.type)
        arrays[MISFIT_REASON] = reasons
        if self._keeps_read:
            arrays[READ] = values
        arrays[PARSED] = structs
        return pa.RecordBatch.from_pydict(arrays)

    def structs(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the columns of values, bytes or null, and why some cannot be read; each is in its place, or null.

        Raises what the registry raises, other than RecordError.
        """
        count = len(values)
        there = values.drop_null() if values.null_count else values
        if not len(there):
            return pa.nulls(count, self._type), pa.nulls(count, _TEXT)
        made, reasons = self._of_all(there)
        if len(there) < count:
            places = pc.if_else(values.is_valid(), _numbers(values.is_valid()), _NULL)
            made, reasons = made.take(places), reasons.take(places)
        return made, reasons

    def _of_all(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        first = values[0].as_py()[:PREFIX]
        if _is_prefix(first) and pc.all(pc.starts_with(values, first)).as_py():
            return self._of_one(first, values)
        prefixes = pc.binary_slice(values, 0, PREFIX)
        parts: list[tuple[pa.Array, pa.Array]] = []
        place, count = pa.nulls(len(values), _LONG), 0
        for prefix in pc.unique(prefixes).to_pylist():
            where = pc.equal(prefixes, pa.scalar(prefix, pa.binary()))
            part = values.filter(where)
            parts.append(self._of_one(prefix, part))
            place = pc.if_else(where, pc.add(_numbers(where), pa.scalar(count, _LONG)), place)
            count += len(part)
        made, reasons = (pa.concat_arrays(each).take(place) for each in zip(*parts, strict=True))
        return made, reasons

    def _of_one(self, prefix: bytes, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the columns of values that all begin alike."""
        if not _is_prefix(prefix):
            reason = f"it begins with 0x{prefix.hex()}, not with 0 and the id of a schema in the registry"
            return self._refused(len(values), reason)
        id_ = int.from_bytes(prefix[1:], "big")
        try:
            if id_ not in self._columns:
                self._columns[id_] = self._made(id_)
        except RecordError as error:
            return self._refused(len(values), str(error))
        column = self._columns[id_]
        if isinstance(column, str):
            return self._refused(len(values), column)
        found, faults = column.decoded(values, PREFIX)
        reasons = pa.nulls(len(values), _TEXT)
        if faults:
            reasons = pa.array([faults.get(place) for place in range(len(values))], _TEXT)
        return self._fitted(found), reasons

    def _refused(self, count: int, reason: str) -> tuple[pa.Array, pa.Array]:
        return pa.nulls(count, self._type), pa.repeat(pa.scalar(reason, _TEXT), count)

    def _made(self, id_: int) -> ValueColumn | str:
        """Return what decodes values of a schema, or why nothing can."""
        writer = self._reader if id_ == self._reader.id else self._schema_of(id_)
        try:
            return self._reader.column(writer)
        except (ValueError, RecordError) as error:
            return f"its schema, id {id_}, cannot be read with id {self._reader.id}, which defines the columns: {error}"

    def _fitted(self, found: pa.Array) -> pa.Array:
        """Return decoded values as the structs that are wanted."""
        is_struct = pa.types.is_struct(found.type)
        columns = [found.field(number) for number in range(found.type.num_fields)] if is_struct else [found]
        mask = found.is_null() if is_struct and found.null_count else None
        columns += [pa.nulls(len(found), field.type) for field in list(self._type)[len(columns) :]]
        return pa.StructArray.from_arrays(columns, fields=list(self._type), mask=mask)


def _is_prefix(prefix: bytes) -> bool:
    return len(prefix) == PREFIX and prefix.startswith(_MAGIC)


def _numbers(where: pa.Array) -> pa.Array:
    """Return 0, 1, 2, … where `where` is true."""
    return pc.subtract(pc.cumulative_sum(where.cast(_LONG)), _ONE)
