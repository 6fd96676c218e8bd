"""What one `poll` of Java's returned, put together from the parts in which it comes.

A connector may give several records of a poll one offset, or offsets that hold only for all of them. So the parts are
committed together, as in Kafka Connect. A poll is divided only where the task itself ends its transaction.
"""

from collections.abc import Callable, Sequence
from functools import partial

from fencepost.api.hosted_task import RecordBatch
from fencepost.builtin.java.port import Polled
from fencepost.record import Batch, joined_member, partition_key


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
    ends = {partition_key(partition): (partition, offset) for batch in batches for partition, offset in batch.ends}
    if isinstance(batches[0], RecordBatch):
        return RecordBatch.holding([record for batch in batches for record in batch.records()], list(ends.values()))
    column = partial(joined_member, batches)
    return Batch(
        topics=column("topics"),
        values=column("values"),
        source_partitions=column("source_partitions"),
        source_offsets=column("source_offsets"),
        keys=column("keys"),
        kafka_partitions=column("kafka_partitions"),
        timestamps=column("timestamps"),
        headers=column("headers", ()),
        ends=list(ends.values()),
    )
