"""Columns of a host as those of a `Batch`, without a loop over values, and raw records of topics as those of a host."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, repeat
from types import NoneType
from typing import Any, Literal

from fencepost.builtin.java.client.crossing import Crossing
from fencepost.builtin.java.client.wire import Message
from fencepost.builtin.java.port import Failure, Mark, Polled, Processing
from fencepost.hook.hosted_task import RecordBatch
from fencepost.record import (
    AppendTime,
    Batch,
    BinaryColumn,
    HeaderBytes,
    HeaderColumn,
    Repeated,
    Runs,
    SinkBatch,
    SourceRecord,
    TopicPartition,
)

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
