"""Records ready for the producer: as columns, or as whole batches that were read from Kafka."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from operator import add
from typing import Any, ClassVar

from fencepost.kafka.value.whole import DeliveryCallback, WholeBatches
from fencepost.record import BinaryColumn, HeaderBytes, Repeated, joined_member, runs_of
from fencepost.record.binary_column import ends
from fencepost.transaction import ProduceError


@dataclass(frozen=True, slots=True)
class OutgoingColumns:
    """Converted records, in order; a column that no record needs is None.

    `sources` are the indexes of the records in the polled batch (None: all of them, in order). `letters` are the dead
    letters of the batch's other records, to be sent with these; `is_dead_letters` is true of those. `callbacks` maps
    indexes to functions, which are called with (error, message) when the record is delivered.
    """

    topics: Sequence[str]
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    partitions: Sequence[int | None] | None = None
    timestamps: Sequence[int | None] | None = None
    headers: Sequence[Sequence[HeaderBytes]] | None = None
    sources: Sequence[int] | None = None
    letters: "OutgoingColumns | None" = None
    callbacks: Mapping[int, DeliveryCallback] = field(default_factory=dict)
    is_dead_letters: bool = False

    @property
    def is_plain(self) -> bool:
        """Say whether every record is a topic, a value and perhaps a key, and nothing else."""
        if self.partitions is not None or self.timestamps is not None or self.callbacks:
            return False
        return self.headers is None or not any(self.headers)

    def about_bytes(self) -> int:
        """Return the approximate size of these records in bytes."""
        return sum(self.sizes(1)) * len(self)

    def slice(self, start: int, stop: int) -> "OutgoingColumns":
        """Return records `start` to `stop`, excluding `stop`."""
        if (start, stop) == (0, len(self)):
            return self
        part = slice(start, stop)
        return OutgoingColumns(
            self.topics[part],
            self.values[part],
            None if self.keys is None else self.keys[part],
            None if self.partitions is None else self.partitions[part],
            None if self.timestamps is None else self.timestamps[part],
            None if self.headers is None else self.headers[part],
            range(start, stop) if self.sources is None else self.sources[part],
            callbacks={index - start: call for index, call in self.callbacks.items() if start <= index < stop},
        )

    def sizes(self, count: int) -> list[int]:
        """Return the bytes of key, value and headers of each of the first `count` records."""
        sizes = _lengths(self.values[:count])
        if self.keys is not None:
            sizes = list(map(add, sizes, _lengths(self.keys[:count])))
        if self.headers is not None:
            each = ([_header_bytes(headers)] * times for headers, times in runs_of(self.headers[:count]))
            sizes = list(map(add, sizes, chain.from_iterable(each)))
        return sizes

    def fitting(self, most: int, room_bytes: int) -> tuple[int, int]:
        """Return how many of the first `most` records have fewer than `room_bytes` in total, and their total."""
        headers = Repeated((), most) if self.headers is None else self.headers
        if isinstance(self.values, BinaryColumn) and self.keys is None and isinstance(headers, Repeated):
            totals, each = ends(self.values.array[:most]), _header_bytes(headers.value)

            def bytes_before(index: int) -> int:
                return totals[index] - totals[0] + index * each

            count = bisect_left(range(len(totals)), room_bytes, lo=1, key=bytes_before) - 1
            return count, bytes_before(count)
        running = list(accumulate(self.sizes(most), initial=0))
        count = max(bisect_left(running, room_bytes) - 1, 0)
        return count, running[count]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class OutgoingBatches:
    """Whole batches to be written as they were read, in order; all of their records are sent.

    There is a topic, and a partition, for each record. `callbacks` are as in `OutgoingColumns`.
    """

    topics: Sequence[str]
    partitions: Sequence[Any]
    batches: WholeBatches
    callbacks: Mapping[int, DeliveryCallback] = field(default_factory=dict)
    sources: ClassVar[None] = None
    letters: ClassVar[None] = None
    is_dead_letters: ClassVar[bool] = False

    def about_bytes(self) -> int:
        """Return the size of the batches in bytes."""
        return self.batches.size_bytes

    def __len__(self) -> int:
        return len(self.batches)


Outgoing = OutgoingColumns | OutgoingBatches


def _lengths(column: Sequence[bytes | None]) -> list[int]:
    if isinstance(column, BinaryColumn):
        return [end - start for start, end in pairwise(ends(column.array))]
    try:
        return list(map(len, column))  # type: ignore[arg-type]
    except TypeError:  # tombstones
        return [0 if value is None else len(value) for value in column]


def _header_bytes(headers: Sequence[HeaderBytes]) -> int:
    return sum(len(name.encode()) + len(value or b"") for name, value in headers)


def with_its_place(
    error: ProduceError, outgoing: Outgoing, most_bytes: int, origin: Callable[[int], str]
) -> ProduceError:
    """Return a refusal of records with the size and the origin of the record that is too large.

    `origin` describes the record with an index in `outgoing`. Other errors are returned unchanged.
    """
    if not error.is_refused or error.is_denied or isinstance(outgoing, OutgoingBatches):
        return error
    sizes = outgoing.sizes(len(outgoing))
    index = next((index for index, size in enumerate(sizes) if size > most_bytes), None)
    if index is None:
        return error
    return ProduceError(
        f"{error}. The record has {sizes[index]:,} bytes, and the limit is {most_bytes:,}: {origin(index)}",
        is_refused=True,
        is_batch_too_large=error.is_batch_too_large,
    )


def merged(parts: Sequence[OutgoingColumns]) -> OutgoingColumns:
    """Return the records of all parts in the order of their `sources`, which every part must have."""
    full = [part for part in parts if len(part)]
    if len(full) == 1:
        return full[0]
    sources = list(chain.from_iterable(part.sources or () for part in full))
    order = in_order(sources)
    is_ordered = order == list(range(len(order)))

    def column(name: str) -> Any:
        joined = joined_member(full, name, () if name == "headers" else None)
        if is_ordered or joined is None:
            return joined
        values = list(joined)
        return [values[index] for index in order]

    return OutgoingColumns(
        column("topics") or (),
        column("values") or (),
        column("keys"),
        column("partitions"),
        column("timestamps"),
        column("headers"),
        [sources[index] for index in order],
    )


def in_order(sources: Sequence[int]) -> list[int]:
    """Return the places of the sources from the first to the last."""
    return sorted(range(len(sources)), key=sources.__getitem__)
