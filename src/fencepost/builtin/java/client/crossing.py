"""Records whose values cross between Python and Java, in both directions.

The buffer `records` has, one after the other: columns (`value_writer`) of topics, partitions and timestamps; keys;
values; the number of headers of each record; a column of the headers' names; the headers' values. On the way to Java
there follow a source's partitions and offsets, without schemas, or the topics, offsets and partitions where a sink's
records were read.

Keys, values and headers are typed: an int32 for each says which of the schemas in the buffer `schemas` it has, -1 for
none, or -2 for bytes of a converter; then there is a column for each of these numbers that occurs, in their order.
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

from fencepost.api import RecordError
from fencepost.builtin.java.client.value_reader import ValueReader
from fencepost.builtin.java.client.value_writer import UNWRITABLE, ValueWriter
from fencepost.hook.hosted_chain import RAW
from fencepost.record import ConnectRecord, Header, Schema
from fencepost.record.schema import INT32, INT64, STRING

_NO_SCHEMA, _RAW = -1, -2
_MOST_SCHEMAS = 1024
_COLUMNS: dict[int, Schema | None] = {_NO_SCHEMA: None, _RAW: RAW}


class Crossing:
    """Both directions of one connection. Schemas that stay the same are the same objects in all batches."""

    def __init__(self, *, is_source: bool = True) -> None:
        """`is_source`: whether the records that are written are those of a source, or of a sink."""
        self._is_source = is_source
        self._definitions: dict[int, tuple[Schema, bytes]] = {}  # by the id of a schema, which is kept alive
        self._read: dict[bytes, Schema] = {}

    def written(self, records: Sequence[ConnectRecord]) -> list[tuple[str, bytes]]:
        """Return the buffers with records of one kind. Raises RecordError if a value has no form."""
        writer, table = ValueWriter(), _Table(self)
        try:
            self._write(writer, table, records)
        except UNWRITABLE as error:
            raise RecordError(f"it cannot be handed to Java: {error}") from error
        return [("schemas", table.written()), ("records", writer.taken())]

    def _write(self, writer: ValueWriter, table: "_Table", records: Sequence[Any]) -> None:
        writer.column(STRING, [record.topic for record in records])
        writer.column(INT32, [record.kafka_partition for record in records])
        writer.column(INT64, [record.timestamp for record in records])
        table.typed(writer, [record.key_schema for record in records], [record.key for record in records])
        table.typed(writer, [record.value_schema for record in records], [record.value for record in records])
        writer.integers([len(record.headers) for record in records])
        headers = list(chain.from_iterable(record.headers for record in records))
        writer.column(STRING, [header.key for header in headers])
        table.typed(writer, [header.schema for header in headers], [header.value for header in headers])
        if self._is_source:
            writer.column(None, [record.source_partition for record in records])
            writer.column(None, [record.source_offset for record in records])
            return
        places = [record.at or (record.topic, record.kafka_partition or 0) for record in records]
        writer.column(STRING, [topic for topic, _ in places])
        writer.column(INT64, [record.kafka_offset for record in records])
        writer.column(INT32, [partition for _, partition in places])

    def read(self, schemas: memoryview, records: memoryview, given: Sequence[ConnectRecord]) -> Sequence[ConnectRecord]:
        """Return what has become of given records."""
        table, reader, count = self._schemas(ValueReader(schemas)), ValueReader(records), len(given)
        topics = reader.column(STRING, count)
        partitions, timestamps = reader.column(INT32, count), reader.column(INT64, count)
        keys, values = _typed(reader, table, count), _typed(reader, table, count)
        ends = reader.ends(count)
        names = reader.column(STRING, ends[-1])
        headers = [
            Header(name, value, schema)
            for name, (schema, value) in zip(names, _typed(reader, table, ends[-1]), strict=True)
        ]
        rows = zip(given, topics, partitions, timestamps, keys, values, pairwise(ends), strict=True)
        return [
            record.replace(
                topic=topic,
                kafka_partition=partition,
                timestamp=timestamp,
                key_schema=key[0],
                key=key[1],
                value_schema=value[0],
                value=value[1],
                headers=tuple(headers[start:end]),
            )
            for record, topic, partition, timestamp, key, value, (start, end) in rows
        ]

    def definition(self, schema: Schema) -> bytes:
        found = self._definitions.get(id(schema))
        if found is None:
            if len(self._definitions) >= _MOST_SCHEMAS:
                self._definitions.clear()
            writer = ValueWriter()
            writer.definition(schema)
            found = self._definitions[id(schema)] = (schema, writer.taken())
        return found[1]

    def _schemas(self, reader: ValueReader) -> list[Schema]:
        if len(self._read) >= _MOST_SCHEMAS:
            self._read.clear()
        found = []
        for _ in range(reader.integer()):
            definition = reader.bytes()
            if definition not in self._read:
                self._read[definition] = ValueReader(definition).definition()
            found.append(self._read[definition])
        return found


class _Table:
    """The schemas of one message, each once."""

    def __init__(self, crossing: Crossing) -> None:
        self._crossing = crossing
        self._numbers: dict[bytes, int] = {}
        self._known: dict[int, int] = {id(None): _NO_SCHEMA, id(RAW): _RAW}
        self._schemas: list[Schema] = []

    def typed(self, writer: ValueWriter, schemas: Sequence[Schema | None], values: Sequence[Any]) -> None:
        ids = list(map(id, schemas))
        for schema in {id(schema): schema for schema in schemas}.values():
            if schema is not None and id(schema) not in self._known:
                definition = self._crossing.definition(schema)
                if definition not in self._numbers:
                    self._numbers[definition] = len(self._schemas)
                    self._schemas.append(schema)
                self._known[id(schema)] = self._numbers[definition]
        numbers = [self._known[each] for each in ids]
        writer.integers(numbers)
        for number in sorted(set(numbers)):
            chosen = [value for value, each in zip(values, numbers, strict=True) if each == number]
            writer.column(_COLUMNS[number] if number < 0 else self._schemas[number], chosen)

    def written(self) -> bytes:
        writer = ValueWriter()
        writer.integer(len(self._numbers))
        for definition in self._numbers:
            writer.bytes(definition)
        return writer.taken()


def _typed(reader: ValueReader, table: Sequence[Schema], count: int) -> list[tuple[Schema | None, Any]]:
    numbers = reader.integers(count)
    columns = {}
    for number in sorted(set(numbers)):
        schema = _COLUMNS[number] if number < 0 else table[number]
        columns[number] = iter([(schema, value) for value in reader.column(schema, numbers.count(number))])
    return [next(columns[number]) for number in numbers]
