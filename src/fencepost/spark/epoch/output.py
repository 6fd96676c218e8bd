"""Writes a query's output of an epoch's ranges; each range is one transaction with the offset after the range.

A range's transactional id belongs to its partition. Order (E3): `init_transactions`, which ends what an earlier attempt
has left open ▸ read the group's offset ▸ produce ▸ check that all rows have arrived ▸ send the offset, in the name of
the member that planned the epoch (E19) ▸ commit. If that member was replaced, the group's coordinator refuses the
offset.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fencepost.api import FencedError, RetriableError
from fencepost.kafka.group.contributors import Contributors
from fencepost.kafka.group.memberless import read_stable
from fencepost.kafka.value.position import NO_EPOCH, GroupOffset, LogRange
from fencepost.record import TopicPartition
from fencepost.spark.partition.write import PartitionResult
from fencepost.storage.internal_topics import READ_S
from fencepost.task.channel.split_message import EpochOutput, EpochReading
from fencepost.task.delivery.delivery import send_outgoing
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.task.sink.reader import OutputGuard
from fencepost.transaction import CommitUnknownError, ProduceError, TransactionalWriter, WriterOpenError
from fencepost.transaction.input_fence import Signature
from fencepost.transaction.lane import range_ids


def write_range(
    reading: EpochReading,
    range_: LogRange,
    batches: Iterable[Any],
    outgoing: Callable[[Any], OutgoingColumns],
    ensure_complete: Callable[[], None],
) -> PartitionResult:
    """Write the output of a range, from Arrow `batches`, and the offset after the range, on an executor.

    Raises RetriableError if the range must be planned again: then nothing of it is committed, or all of it is.
    """
    assert reading.output is not None
    try:
        return _written(reading, reading.output, range_, batches, outgoing, ensure_complete)
    except (CommitUnknownError, FencedError) as error:
        raise RetriableError(str(error)) from error
    except WriterOpenError as error:
        if not error.is_passing:
            raise
        raise RetriableError(str(error)) from error
    except ProduceError as error:
        if error.is_refused:
            raise
        raise RetriableError(str(error)) from error


def _written(
    reading: EpochReading,
    output: EpochOutput,
    range_: LogRange,
    batches: Iterable[Any],
    outgoing: Callable[[Any], OutgoingColumns],
    ensure_complete: Callable[[], None],
) -> PartitionResult:
    place, rows, guard = range_.place, 0, OutputGuard.from_json(output.guard)
    writer = TransactionalWriter(output.producer_conf, range_id(output.transactional_id, place))
    try:
        writer.open()
        if _is_done(output, reading.conf, range_):
            return PartitionResult(0, skipped=True)
        for batch in batches:
            records = outgoing(batch)
            guard.ensure_open(records.topics)
            send_outgoing(writer, records, None)
            rows += len(records)
        ensure_complete()  # E1
        leader_epoch = reading.leader_epochs.get(str(place), NO_EPOCH)
        offset = GroupOffset(*place, range_.end, output.offset_metadata[place.topic], leader_epoch)
        signed = Signature(Contributors(output.producer_conf)).sign(writer, [offset])
        writer.commit(group_offsets=signed, group_metadata=bytes.fromhex(output.metadata))  # E19
        return PartitionResult(rows, skipped=False)
    except BaseException:
        writer.abort()
        raise
    finally:
        writer.close()


def _is_done(output: EpochOutput, reader_conf: Mapping[str, Any], range_: LogRange) -> bool:
    """Return whether an earlier attempt has committed the range. Raises FencedError if the group is elsewhere."""
    found = read_stable(reader_conf, output.group, READ_S, [range_.place], are_all=True).get(range_.place)
    if found is not None and found.offset == range_.end:
        return True
    if found is None or found.offset != range_.start:
        stands = "nowhere" if found is None else f"at {found.offset}"
        raise FencedError(
            f"group {output.group} is {stands} in {range_.place.topic}-{range_.place.partition}, but the range "
            f"begins at {range_.start}"
        )
    return False


def range_id(transactional_id: str, place: TopicPartition) -> str:
    """Return the transactional id for the ranges of a partition, which are written one after the other."""
    return f"{range_ids(transactional_id)}{place.topic}-{place.partition}"
