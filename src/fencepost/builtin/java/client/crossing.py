"""Records whose values cross between Python and Java, in both directions.

The buffer `records` has, one after the other: columns (`value_writer`) of topics, partitions and timestamps; keys;
values; the number of headers of each record; a column of the headers' names; the headers' values. On the way to Java
there follow a source's partitions and offsets, without schemas, or the topics, offsets and partitions where a sink's
records were read.

Keys, values and headers are typed: an int32 for each says which of the schemas in the buffer `schemas` it has, -1 for
none, or -2 for bytes of a converter; then there is a column for each of these numbers that occurs, in their order.

Columns of a host as those of a `Batch`, without a loop over values, and raw records of topics as those of a host.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise, repeat
from types import NoneType
from typing import Any, Literal

from fencepost.api import RecordError
from fencepost.builtin.java.client.line import Message
from fencepost.builtin.java.client.value_reader import ValueReader
from fencepost.builtin.java.client.value_writer import UNWRITABLE, ValueWriter
from fencepost.builtin.java.port import Failure, Mark, Polled, Processing
from fencepost.hook.hosted_chain import RAW
from fencepost.hook.hosted_task import RecordBatch
from fencepost.record import (
    AppendTime,
    Batch,
    BinaryColumn,
    ConnectRecord,
    Header,
    HeaderBytes,
    HeaderColumn,
    Repeated,
    Runs,
    Schema,
    SinkBatch,
    SourceRecord,
    TopicPartition,
)
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


_NO_TIMESTAMP = -(2**63)
_NO_PARTITION = -1
_LEAST_RUN = 4  # rows on average: shorter runs cost more than a list does
_Buffers = Mapping[str, memoryview]
Buffers = list[tuple[str, Any]]


def polled_of(message: Message, crossing: Crossing) -> Polled | None:
    """Return what the host answered to `poll`; `crossing` reads records that have their values."""
    found = message.head["result"]
    if found is None:
        return None
    return Polled(
        found["number"],
        _records(found, message.buffers, crossing) if "records" in message.buffers else _batch(found, message.buffers),
        found["is_whole"],
        None if found["mark"] is None else Mark(found["mark"]),
        processing_of(found, found["dropped"]),
    )


def processing_of(found: Mapping[str, Any], offsets: Iterable[Any] = ()) -> Processing:
    """Return what was done with the records; `offsets` are those of the failures, in their order, for a source."""
    pairs = zip(found["failures"], chain(offsets, repeat(None)), strict=False)
    failures = [Failure(*[*each, offset]) for each, offset in pairs]
    return Processing(found["filtered"], tuple(failures), found["retries"])


def _records(found: Mapping[str, Any], buffers: _Buffers, crossing: Crossing) -> RecordBatch:
    places = zip(_runs(found["sources"]), found.get("offsets", repeat(None)), strict=False)
    given = [SourceRecord(partition, offset, "") for partition, offset in places]
    records = crossing.read(buffers["schemas"], buffers["records"], given)
    return RecordBatch.holding(records, [(partition, offset) for partition, offset in found["ends"]])


def _batch(found: Mapping[str, Any], buffers: _Buffers) -> Batch:
    rows: int = found["rows"]
    values = _binary("values", rows, buffers)
    return Batch(
        topics=_runs(found["topics"]),
        values=BinaryColumn.without_values(rows) if values is None else values,
        source_partitions=_runs(found["sources"]),
        source_offsets=Repeated(None, rows),
        keys=_binary("keys", rows, buffers),
        kafka_partitions=_numbers(buffers.get("partitions"), "i", _NO_PARTITION),
        timestamps=_numbers(buffers.get("timestamps"), "q", _NO_TIMESTAMP),
        headers=_headers(found, buffers),
        ends=[(partition, offset) for partition, offset in found["ends"]],
    )


def _runs(described: Sequence[Any]) -> Sequence[Any]:
    distinct, values, counts = described
    if len(values) == 1:
        return Repeated(distinct[0], counts[0])
    return Runs([distinct[number] for number in values], counts)


def _binary(name: str, rows: int, buffers: _Buffers) -> BinaryColumn | None:
    if f"{name}.ends" not in buffers:
        return None
    import pyarrow as pa

    present = buffers.get(f"{name}.present")
    parts = [present, buffers[f"{name}.ends"], buffers[f"{name}.data"]]
    arrow = [None if part is None else pa.py_buffer(part) for part in parts]
    return BinaryColumn(pa.Array.from_buffers(pa.binary(), rows, arrow))


def _numbers(buffer: memoryview | None, kind: Literal["i", "q"], nothing: int) -> Sequence[int | None] | None:
    if buffer is None:
        return None
    numbers = buffer.cast(kind).tolist()
    if nothing in numbers:
        return [None if number == nothing else number for number in numbers]
    first = numbers[0]
    return Repeated(first, len(numbers)) if numbers.count(first) == len(numbers) else numbers


def _headers(found: Mapping[str, Any], buffers: _Buffers) -> HeaderColumn | None:
    """Return the headers of the rows; those that rows have in common are one object."""
    if "headers" not in found:
        return None
    distinct, numbers, counts = found["header_names"]
    names = chain.from_iterable(repeat(distinct[number], count) for number, count in zip(numbers, counts, strict=True))
    values = _binary("headers", sum(counts), buffers)
    pairs = zip(names, repeat(None) if values is None else values, strict=False)
    own: list[Sequence[HeaderBytes]] = []
    for count in buffers["header_counts"].cast("i"):
        own.append(tuple(next(pairs) for _ in range(count)))
    runs = _runs([own, *found["headers"]])
    many = isinstance(runs, Runs) and _LEAST_RUN * len(runs.values) > len(runs)
    return HeaderColumn([*runs] if many else runs)


def columns_of(batch: SinkBatch) -> tuple[dict[str, Any], Buffers]:
    """Return the JSON and the buffers of the request for a batch whose keys and values are bytes."""
    places = [(*place, topic, count) for place, topic, count in _places(batch)]
    head: dict[str, Any] = {"rows": len(batch), "places": places}
    stamps = batch.timestamps
    kinds = {int} if isinstance(stamps, array) else set(map(type, stamps))
    if NoneType in kinds:
        stamps = [_NO_TIMESTAMP if stamp is None else stamp for stamp in stamps]
    buffers: Buffers = [("offsets", array("q", batch.offsets)), ("timestamps", array("q", stamps))]
    if AppendTime in kinds:
        buffers.append(("appended", bytes(isinstance(stamp, AppendTime) for stamp in stamps)))
    buffers += _parts("keys", batch.keys)
    buffers += _parts("values", batch.values)
    if batch.headers is not None:
        headers = batch.headers
        raw: Sequence[Sequence[HeaderBytes]] = (
            headers.raw
            if isinstance(headers, HeaderColumn)
            else [[(header.key, header.value) for header in each] for each in headers]
        )
        head["header_names"] = [name for each in raw for name, _ in each]
        buffers.append(("header_counts", array("i", map(len, raw))))
        buffers += _parts("headers", [value for each in raw for _, value in each])
    return head, buffers


def _places(batch: SinkBatch) -> Iterator[tuple[TopicPartition, str, int]]:
    """Yield partitions, topics of their records, and how many follow each other: a resent record has another topic."""
    places, topics = batch.places, batch.topics
    if isinstance(places, Repeated) and isinstance(topics, Repeated):
        yield from [(places.value, topics.value, len(places))] if len(places) else []
        return
    for (place, topic), same in groupby(zip(places, topics, strict=True)):
        yield place, topic, sum(1 for _ in same)


def _parts(name: str, column: Sequence[bytes | None]) -> Buffers:
    if isinstance(column, Repeated) and column.value is None:
        return []
    import pyarrow as pa

    values = column.array if isinstance(column, BinaryColumn) else pa.array(column, pa.binary())
    if values.null_count == len(values):
        return []
    if values.offset:  # a slice: its bits and offsets do not begin at a byte, and at 0
        values = pa.concat_arrays([values, pa.nulls(0, pa.binary())])
    present, ends, data = values.buffers()
    count = len(values)
    found: Buffers = [(f"{name}.ends", memoryview(ends)[: 4 * (count + 1)]), (f"{name}.data", data or b"")]
    if values.null_count and present is not None:
        found.append((f"{name}.present", memoryview(present)[: (count + 7) // 8]))
    return found
