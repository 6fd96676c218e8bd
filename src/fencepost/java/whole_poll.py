"""What one `poll` of Java's returned, put together from the parts in which it comes.

A connector may give several records of a poll one offset, or offsets that hold only for all of them. So the parts are
committed together, as in Kafka Connect. A poll is divided only where the task itself ends its transaction.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from fencepost.java.port import Polled
from fencepost.record import Batch, BinaryColumn, HeaderColumn, Repeated, Runs, partition_key


def whole_poll(poll: Callable[[], Polled | None]) -> list[Polled]:
    """Return the parts up to the end of what Java's `poll` returned, or up to a mark; none if it returned nothing.

    An error of a later part ends the task, which begins again with the first.
    """
    parts: list[Polled] = []
    while (polled := poll()) is not None:
        parts.append(polled)
        if polled.is_whole or polled.mark is not None:
            break
    return parts


def joined(batches: Sequence[Batch]) -> Batch:
    """Return the records of a host's batches as one, with the last offset of each source partition."""
    if len(batches) == 1:
        return batches[0]
    counts = [len(batch) for batch in batches]
    ends = {partition_key(partition): (partition, offset) for batch in batches for partition, offset in batch.ends}
    return Batch(
        topics=_runs([batch.topics for batch in batches]),
        values=BinaryColumn.joined([_binary(batch.values, len(batch)) for batch in batches]),
        source_partitions=_runs([batch.source_partitions for batch in batches]),
        source_offsets=Repeated(None, sum(counts)),
        keys=_unless_empty(
            [batch.keys for batch in batches],
            lambda columns: BinaryColumn.joined([_binary(*pair) for pair in zip(columns, counts, strict=True)]),
        ),
        kafka_partitions=_numbers([batch.kafka_partitions for batch in batches], counts),
        timestamps=_numbers([batch.timestamps for batch in batches], counts),
        headers=_unless_empty(
            [batch.headers for batch in batches],
            lambda columns: HeaderColumn(
                [
                    headers
                    for column, count in zip(columns, counts, strict=True)
                    for headers in (column.raw if isinstance(column, HeaderColumn) else [()] * count)
                ]
            ),
        ),
        ends=list(ends.values()),
    )


def _runs(columns: Sequence[Sequence[Any]]) -> Runs[Any]:
    values: list[Any] = []
    counts: list[int] = []
    for column in columns:
        if isinstance(column, Runs):
            values += column.values
            counts += column.counts
        elif isinstance(column, Repeated) and len(column):
            values.append(column.value)
            counts.append(len(column))
    return Runs(values, counts)


def _binary(column: Any, count: int) -> BinaryColumn:
    return column if isinstance(column, BinaryColumn) else BinaryColumn.without_values(count)


def _numbers(columns: Sequence[Sequence[int | None] | None], counts: Sequence[int]) -> Sequence[int | None] | None:
    if all(column is None for column in columns):
        return None
    pairs = zip(columns, counts, strict=True)
    return list(chain.from_iterable([None] * count if column is None else column for column, count in pairs))


def _unless_empty(columns: Sequence[Any], made: Callable[[Sequence[Any]], Any]) -> Any:
    """Return None if no part has such a column."""
    return None if all(column is None for column in columns) else made(columns)
