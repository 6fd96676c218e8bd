"""Values of JSON Schema and Protobuf as a column: value by value, by way of Connect's schema."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fencepost.api import RecordError, Schema, SchemaType
from fencepost.record.schema import arrow_type

if TYPE_CHECKING:
    from fencepost.builtin.converter.registry.client import WrittenSchema
    from fencepost.builtin.converter.registry.format import Reader

_FAULTS = (RecordError, pa.ArrowException, ValueError, TypeError, OverflowError)


def connect_schema_of(schema: "WrittenSchema", referenced: Mapping[str, "WrittenSchema"], mapping: Any) -> Schema:
    """Return Connect's schema of one of the registry; of a Protobuf file that of its first message.

    Raises RecordError for a schema that Connect cannot express.
    """
    if schema.type == "JSON":
        from fencepost.builtin.converter.registry.json_schema.schema import Document
        from fencepost.builtin.converter.registry.json_schema.schema import to_connect as of_json
        from fencepost.builtin.converter.registry.settings import JsonSchemaMapping

        return of_json(Document.of(schema, referenced), JsonSchemaMapping(mapping))
    from fencepost.builtin.converter.registry.protobuf.compiling import compiled
    from fencepost.builtin.converter.registry.protobuf.converter import ProtobufFormat
    from fencepost.builtin.converter.registry.protobuf.schema import to_connect as of_protobuf

    settings = ProtobufFormat(mapping)
    name = settings.name_of(schema, referenced) or ""
    return of_protobuf(compiled(schema, referenced).message_types_by_name[name.rpartition(".")[2]], settings)


def reader_of(schema: "WrittenSchema", referenced: Mapping[str, "WrittenSchema"], mapping: Any) -> "Reader":
    """Return what reads values of a schema of the registry. Raises RecordError as `connect_schema_of`."""
    if schema.type == "JSON":
        from fencepost.builtin.converter.registry.json_schema.converter import JsonSchemaFormat

        return JsonSchemaFormat(mapping).reader(schema, referenced, None)
    from fencepost.builtin.converter.registry.protobuf.converter import ProtobufFormat

    return ProtobufFormat(mapping).reader(schema, referenced, None)


class ConnectColumn:
    """Reads values as the column of a schema: fields are found by their names, and are null if a value lacks them."""

    def __init__(self, reader: "Reader", schema: Schema) -> None:
        self._reader = reader
        self._name = schema.name if schema.type is SchemaType.STRUCT else None
        self._ready = _for_arrow(schema)
        self.type = arrow_type(schema)

    def decoded(self, values: pa.Array, after: int) -> tuple[pa.Array, Mapping[int, str]]:
        """Return the column of bytes without nulls, whose payload begins after so many, and what is wrong by number."""
        rows: list[Any] = []
        faults: dict[int, str] = {}
        for place, data in enumerate(values.to_pylist()):
            try:
                rows.append(self._read(data, after))
            except _FAULTS as error:
                rows.append(None)
                faults[place] = str(error)
        try:
            return pa.array(rows, self.type), faults
        except _FAULTS:
            return self._one_by_one(rows, faults), faults

    def _read(self, data: bytes, after: int) -> Any:
        schema, value = self._reader.read(data, after)
        if self._name is not None and schema.name is not None and schema.name != self._name:
            raise RecordError(f"it is of {schema.name}, but the columns are those of {self._name}")
        return self._ready(value)

    def _one_by_one(self, rows: list[Any], faults: dict[int, str]) -> pa.Array:
        parts = []
        for place, row in enumerate(rows):
            try:
                parts.append(pa.array([row], self.type))
            except _FAULTS as error:
                faults[place] = str(error)
                parts.append(pa.nulls(1, self.type))
        return pa.concat_arrays(parts)


def _for_arrow(schema: Schema) -> Callable[[Any], Any]:
    """Return what makes a value of Connect one that Arrow takes: of maps, their entries."""
    if not _has_map(schema):
        return lambda value: value
    if schema.type is SchemaType.MAP and schema.value_schema is not None:
        item = _for_arrow(schema.value_schema)
        return lambda value: None if value is None else [(key, item(each)) for key, each in value.items()]
    if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
        item = _for_arrow(schema.value_schema)
        return lambda value: None if value is None else [item(each) for each in value]
    fields = {field.name: _for_arrow(field.schema) for field in schema.fields}
    return lambda value: None if value is None else {n: ready(value.get(n)) for n, ready in fields.items()}


def _has_map(schema: Schema) -> bool:
    parts = [schema.value_schema, *(field.schema for field in schema.fields)]
    return schema.type is SchemaType.MAP or any(_has_map(part) for part in parts if part is not None)
