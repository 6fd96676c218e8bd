"""A short digest of the rows of a partition, by which a rerun can check that they are the same.

A digest covers the written records in their order, and does not depend on how Spark cuts rows into batches: each column
has a stream of lengths and a stream of bytes, which batches only extend.
"""

import hashlib
import struct
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.record import Repeated
from fencepost.task.delivery.outgoing import OutgoingColumns

_NULL = -1


class RowDigest:
    """The digest of records that were added one after the other."""

    def __init__(self) -> None:
        self.rows = 0
        self._streams: dict[str, Any] = {}

    def add(self, records: OutgoingColumns, batch: Any = None) -> None:
        """Append records. Their topics count if each record names its own.

        `batch` is the Arrow batch that they were made from. The bytes of its columns `value` and `key` are then read in
        place, which takes half the time and gives the same digest.
        """
        self.rows += len(records)
        arrow = {} if batch is None else dict(zip(batch.schema.names, batch.columns, strict=True))
        self._add_bytes("value", records.values, arrow.get("value"))
        if records.keys is not None:
            self._add_bytes("key", records.keys, arrow.get("key"))
        if not isinstance(records.topics, Repeated):
            self._add_bytes("topic", [topic.encode() for topic in records.topics])
        if records.partitions is not None:
            self._add("partition", array("q", [_NULL if p is None else p for p in records.partitions]))
        if records.headers is not None:
            self._add_bytes("headers", [repr(headers).encode() for headers in records.headers])

    def text(self) -> str:
        """Return the digest of what was added so far."""
        whole = hashlib.sha256()
        for name, stream in sorted(self._streams.items()):
            whole.update(name.encode() + stream.digest())
        return whole.hexdigest()[:32]

    def _add_bytes(self, name: str, values: Sequence[bytes | None], column: Any = None) -> None:
        lengths, content = _of_list(values) if column is None else _of_column(column)
        self._add(f"{name} lengths", lengths)
        self._add(name, content)

    def _add(self, name: str, content: Any) -> None:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = hashlib.sha256(usedforsecurity=False)
        stream.update(content)


def _of_list(values: Sequence[bytes | None]) -> tuple[Any, Any]:
    try:
        return array("i", map(len, values)), b"".join(values)  # type: ignore[arg-type]
    except TypeError:  # nulls
        lengths = array("i", [_NULL if value is None else len(value) for value in values])
        return lengths, b"".join(value for value in values if value is not None)


def _of_column(column: Any) -> tuple[Any, Any]:
    """Return the same for an Arrow column of strings or bytes, without creating a Python object for each value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.binary_length(column).cast(pa.int32()).fill_null(_NULL)
    present = column.drop_null() if column.null_count else column
    _, offsets, content = present.buffers()
    if not len(present) or content is None:
        return _numbers(lengths), b""
    form = "=q" if present.type in (pa.large_string(), pa.large_binary()) else "=i"
    start, stop = (
        struct.unpack_from(form, offsets, struct.calcsize(form) * (present.offset + at))[0] for at in (0, len(present))
    )
    return _numbers(lengths), memoryview(content)[start:stop]


def _numbers(column: Any) -> memoryview:
    return memoryview(column.buffers()[1])[4 * column.offset : 4 * (column.offset + len(column))]


class Digested(NamedTuple):
    """Rows that were read and not written. `ends`: the digest up to each row at which a commit may end."""

    rows: int
    digest: str
    ends: Mapping[int, str]


def digest_rows(
    batches: Iterable[Any], outgoing: Callable[[Any], OutgoingColumns], first: int, rows_per_commit: int = 0
) -> Digested:
    """Read all rows of a partition.

    Commits may end after the first `first` rows, every `rows_per_commit` rows, and last.
    """
    digest, ends = RowDigest(), {}
    until = first or rows_per_commit
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, until - digest.rows if until > digest.rows else None)
            digest.add(outgoing(piece), piece)
            start += piece.num_rows
            if digest.rows == until:
                ends[until] = digest.text()
                until += rows_per_commit
    ends[digest.rows] = digest.text()
    return Digested(digest.rows, digest.text(), ends)
