"""Raw records of topics as the columns that a host takes."""

from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby
from types import NoneType
from typing import Any

from fencepost.record import AppendTime, BinaryColumn, HeaderBytes, HeaderColumn, Repeated, SinkBatch, TopicPartition

_NO_TIMESTAMP = -(2**63)
Buffers = list[tuple[str, Any]]


def columns_of(batch: SinkBatch) -> tuple[dict[str, Any], Buffers]:
    """Return the JSON and the buffers of the request for a batch whose keys and values are bytes."""
    places = [(*place, topic, count) for place, topic, count in _runs(batch)]
    head: dict[str, Any] = {"rows": len(batch), "places": places}
    stamps = batch.timestamps
    kinds = {int} if isinstance(stamps, array) else set(map(type, stamps))
    if NoneType in kinds:
        stamps = [_NO_TIMESTAMP if stamp is None else stamp for stamp in stamps]
    buffers: Buffers = [("offsets", array("q", batch.offsets)), ("timestamps", array("q", stamps))]
    if AppendTime in kinds:
        buffers.append(("appended", bytes(isinstance(stamp, AppendTime) for stamp in stamps)))
    buffers += _binary("keys", batch.keys)
    buffers += _binary("values", batch.values)
    if batch.headers is not None:
        raw = _raw(batch.headers)
        head["header_names"] = [name for headers in raw for name, _ in headers]
        buffers.append(("header_counts", array("i", map(len, raw))))
        buffers += _binary("headers", [value for headers in raw for _, value in headers])
    return head, buffers


def _runs(batch: SinkBatch) -> Iterator[tuple[TopicPartition, str, int]]:
    """Yield partitions, topics of their records, and how many follow each other: a resent record has another topic."""
    places, topics = batch.places, batch.topics
    if isinstance(places, Repeated) and isinstance(topics, Repeated):
        yield from [(places.value, topics.value, len(places))] if len(places) else []
        return
    for (place, topic), same in groupby(zip(places, topics, strict=True)):
        yield place, topic, sum(1 for _ in same)


def _raw(headers: Sequence[Any]) -> Sequence[Sequence[HeaderBytes]]:
    if isinstance(headers, HeaderColumn):
        return headers.raw
    return [[(header.key, header.value) for header in each] for each in headers]


def _binary(name: str, column: Sequence[bytes | None]) -> Buffers:
    """Return the buffers of a column of bytes; none if all values are null."""
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
