"""What a task hands to the driver: the index of its batches, with their bytes or the file in which these are.

The driver makes a folder with a random name. A task that sees it shares it with the driver, and writes larger output
there; on another machine, where no such folder is, the output stays in the message.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from fencepost.api import FatalError
from fencepost.kafka.codec.encode_header import HEADER, EncodedBatch
from fencepost.kafka.wire.requests import Target
from fencepost.record import TopicPartition
from fencepost.spark.write.encode import Encoder, PlacedBatch
from fencepost.spark.write.folder import Folder

_IN_MESSAGE_BYTES = 1 << 20
# Messages of all tasks are in the heap of the driver's JVM at once: 100 MB passed in 1 GB, 600 MB ended it.
_MOST_IN_MESSAGE_BYTES = 16 << 20
_LOOK_EVERY_BYTES = 64 << 20
SEVERAL_WRITES = "write it in several writes, each with a write.id of its own"


class BatchTooLargeError(FatalError):
    """A batch cannot be sent within the time-out of its transaction."""


class IndexEntry(NamedTuple):
    """A batch of a task: what its header needs, and the size of its body."""

    place: TopicPartition
    records: int
    codec: int
    first_timestamp: int
    newest_timestamp: int
    size_bytes: int


@dataclass
class Staged(WriterCommitMessage):  # type: ignore[misc]
    """The output of one task. `targets` are its topics as they were when its rows were placed.

    The batches in `index` follow one another, in `data` or in the file `name` of `folder`.
    """

    rows: int
    targets: Mapping[str, Target]
    index: list[IndexEntry]
    data: bytes
    folder: Folder | None = None
    name: str = ""

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.index)

    def batches(self) -> Iterator[PlacedBatch]:
        """Yield the batches in order. Raises OSError if the file cannot be read."""
        if self.folder is None:
            yield from self._cut(memoryview(self.data))
            return
        with self.folder.readable(self.name) as file:
            for each in self.index:
                yield each.place, _batch(each, memoryview(file.read_buffer(each.size_bytes)))

    def _cut(self, data: memoryview) -> Iterator[PlacedBatch]:
        at = 0
        for each in self.index:
            yield each.place, _batch(each, data[at : at + each.size_bytes])
            at += each.size_bytes


def _batch(entry: IndexEntry, body: memoryview) -> EncodedBatch:
    if len(body) < entry.size_bytes:
        raise FatalError(f"a staged file was cut off: it should have {entry.size_bytes - len(body)} more bytes")
    return EncodedBatch((body,), entry.records, entry.codec, entry.first_timestamp, entry.newest_timestamp)


def stage(encoder: Encoder, frames: Iterable[Any], folder: Folder, most_bytes: int | None = None) -> Staged:
    """Encode the rows of a task and keep them for the driver. Nothing of it is in Kafka.

    Raises BatchTooLargeError once all tasks have staged more than `most_bytes`, and FatalError if the rows are too
    large for a message and `folder` is not on this machine.
    """
    name = uuid.uuid4().hex
    index: list[IndexEntry] = []
    parts: list[Any] = []
    size_bytes, file, look_at = 0, None, 0
    try:
        for place, made in encoder.encoded(frames):
            body_bytes = len(made) - HEADER.size
            index.append(
                IndexEntry(place, made.count, made.codec, made.first_timestamp, made.newest_timestamp, body_bytes)
            )
            parts += made.body
            size_bytes += body_bytes
            if file is None and size_bytes > _IN_MESSAGE_BYTES:
                file = _file(folder, name, size_bytes)
            if file is not None:
                file.write(b"".join(parts))
                parts = []
                if most_bytes is not None and size_bytes >= look_at:
                    ensure_fits(max(size_bytes, folder.size_bytes()), most_bytes)
                    look_at = size_bytes + _LOOK_EVERY_BYTES
    finally:
        if file is not None:
            file.close()
    kept = None if file is None else folder
    return Staged(encoder.rows, encoder.targets, index, b"".join(parts), kept, name if kept else "")


def all_staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """Return what the tasks of a batch have staged. Raises FatalError unless every task says so."""
    staged = [each for each in messages if isinstance(each, Staged)]
    if len(staged) < len(messages):
        raise FatalError(f"{len(staged)} of {len(messages)} tasks have said what they staged: run the batch again")
    return staged


def ensure_fits(size_bytes: int, most_bytes: int) -> None:
    """Raise BatchTooLargeError if the output of a frame is too large for one transaction."""
    if size_bytes > most_bytes:
        raise BatchTooLargeError(
            f"the output has more than {most_bytes:,} bytes, which is what a driver sends within "
            f"kafka.transaction.timeout.ms: {SEVERAL_WRITES}, or raise that and the brokers' transaction.max.timeout.ms"
        )


def _file(folder: Folder, name: str, size_bytes: int) -> Any:
    if folder.exists():
        return folder.writable(name)
    if size_bytes <= _MOST_IN_MESSAGE_BYTES:
        return None
    raise FatalError(
        f"a task has more than {_MOST_IN_MESSAGE_BYTES >> 20} MiB of output, and this executor does not see the "
        f"driver's folder {folder.location}: set option staging.location to a folder that executors and driver share, "
        "or write less at a time"
    )
