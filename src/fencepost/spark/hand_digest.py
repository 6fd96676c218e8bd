"""What the rows of a partition were, in a few bytes: so that a rerun can tell whether they are the same.

A digest is of the records that are written, in their order, and does not depend on how Spark cuts rows into batches:
each column has streams of its own, of lengths and of bytes, which batches only lengthen.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fencepost.record import Repeated
from fencepost.spark.partition import cut_at
from fencepost.task.outgoing import Outgoing

_NULL = -1


class RowDigest:
    """The digest of records that were added one after the other."""

    def __init__(self) -> None:
        self.rows = 0
        self._streams: dict[str, Any] = {}

    def add(self, records: Outgoing) -> None:
        """Add records behind the others. Their topic counts where each names its own."""
        self.rows += len(records)
        self._add_bytes("value", records.values)
        if records.keys is not None:
            self._add_bytes("key", records.keys)
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

    def _add_bytes(self, name: str, column: Sequence[bytes | None]) -> None:
        try:
            lengths, content = array("i", map(len, column)), b"".join(column)  # type: ignore[arg-type]
        except TypeError:  # nulls
            lengths = array("i", [_NULL if value is None else len(value) for value in column])
            content = b"".join(value for value in column if value is not None)
        self._add(f"{name} lengths", lengths)
        self._add(name, content)

    def _add(self, name: str, content: "bytes | array[int]") -> None:
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = hashlib.sha256(usedforsecurity=False)
        stream.update(content)


class Digested(NamedTuple):
    """Rows that were read, and not written. `part` is the digest of the first rows, as many as were asked for."""

    rows: int
    digest: str
    part: str | None


def digest_rows(batches: Iterable[Any], outgoing: Callable[[Any], Outgoing], first: int) -> Digested:
    """Read all rows of a partition; `part` is None where there are fewer than `first`."""
    digest, part = RowDigest(), None
    for piece in cut_at(batches, first):
        digest.add(outgoing(piece))
        if digest.rows == first:
            part = digest.text()
    return Digested(digest.rows, digest.text(), part)
