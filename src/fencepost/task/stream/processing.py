"""Both directions of a stream: from fetched records to `process`, and from its result to the producer.

Records stay columns in both if the converters take columns and no transform looks inside. Records that cannot be
processed become dead letters in the transaction, written as they were read (E15).
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

from fencepost.api import FatalError, SinkRecord, SourceRecord, StreamTask
from fencepost.config.connector import output_properties
from fencepost.kafka.value.fetched import Fetched
from fencepost.plugin import find
from fencepost.record import Batch, PositionColumn, Repeated, SinkBatch, TopicPartition
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.conversion.columns import unless_empty
from fencepost.task.conversion.plugins import ChainConfig, conversion_of, given_properties
from fencepost.task.delivery.outgoing import Outgoing
from fencepost.task.failure.dead_letter import class_of
from fencepost.task.failure.dead_letter_producer import TransactionDeadLetters
from fencepost.task.failure.tolerance import ErrorCounters
from fencepost.task.sink.mixed_processing import sink_processor
from fencepost.task.sink.processing import SinkProcessor
from fencepost.task.sink.reader import BatchSize
from fencepost.task.source.mixed_processing import source_processor
from fencepost.task.source.processing import Processor
from fencepost.task.start.run import StreamCounters

Report = Callable[[SinkRecord, Exception], None]


class StreamContext:
    """The `StreamTaskContext` of a task in a slot."""

    def __init__(self, configs: Mapping[str, str], control: Control, report: Report) -> None:
        self.configs = configs
        self.assignment: frozenset[TopicPartition] = frozenset()
        self.report = report
        self._control = control

    @property
    def is_stopping(self) -> bool:
        return self._control.is_stopping


_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
_PROCESS = "TASK_PUT"


class StreamProcessor:
    """Turns fetched records into batches, and a task's results into records to send. One task, one thread."""

    def __init__(self, spec: TaskSpec, incoming: SinkProcessor, outgoing: Processor) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        read, written = incoming.header_converter, outgoing.header_converter
        incoming.keeps.header_bytes = type(read) is type(written) and read.originals == written.originals
        self._letters: TransactionDeadLetters | None = None
        if spec.dead_letters.topic and incoming.tolerance.tolerates_all:  # else the task fails instead
            self._letters = TransactionDeadLetters(spec, partial(class_of, incoming))
            outgoing.letters = TransactionDeadLetters(spec, partial(class_of, outgoing))
            incoming.tolerance.tell = self._letters.tell
            incoming.keeps.read = True
            outgoing.tolerance.tell = self._tell_of_output

    @property
    def has_dead_letters(self) -> bool:
        return self._letters is not None

    def open(self) -> None:
        self._incoming.open()
        self._outgoing.open()

    def close(self) -> None:
        self._incoming.close()
        self._outgoing.close()

    def abandon(self) -> None:
        self._incoming.abandon()
        self._outgoing.abandon()

    def read(self, fetched: Fetched) -> SinkBatch:
        """Return the records for `process`. Raises FatalError if an error is not tolerated."""
        if self._letters is not None:
            self._letters.clear()
        return self._incoming.process(fetched)

    def written(self, result: Any) -> list[Outgoing]:
        """Return the records to send for the result of `process`, dead letters last.

        Raises FatalError as `read` does, and if the result is not rows.
        """
        sent = [self._outgoing.process(batch) for batch in batches_of(result)]
        return [*sent, *self._taken(sent)]

    def report(self, record: SinkRecord, error: Exception) -> None:
        """Drop a record that the task reported, or raise FatalError, as `errors.tolerance` says."""
        self._incoming.tolerance.failed(_PROCESS, error, self._incoming.raw_of(record))

    def _taken(self, sent: Sequence[Outgoing]) -> Iterator[Outgoing]:
        letters = [each.letters for each in sent]
        if self._letters is not None:
            letters.insert(0, self._letters.take())
        return (each for each in letters if each is not None)

    def _tell_of_output(self, stage: str, error: Exception, record: SourceRecord) -> None:
        """Report the error of an output record.

        The record is kept as it was read if its place in the input is known, else as `process` returned it.
        """
        assert self._outgoing.letters is not None
        self._outgoing.letters.tell(stage, error, self._as_read(record))

    def _as_read(self, record: SourceRecord) -> SourceRecord | SinkRecord:
        partition, offset = record.source_partition, record.source_offset
        if isinstance(partition, _Origin) and partition.as_read is not None:
            return partition.as_read
        if partition.keys() != {_TOPIC, _PARTITION} or offset is None:
            return record
        place = TopicPartition(partition[_TOPIC], partition[_PARTITION])
        return self._incoming.read_at(place, offset[_OFFSET]) or record


@dataclass
class StreamStep:
    """Processes the records of one task instance."""

    task: StreamTask
    context: StreamContext
    processor: StreamProcessor
    counters: StreamCounters
    batches: BatchSize

    def run(self, fetched: Fetched, assignment: frozenset[TopicPartition]) -> list[Outgoing]:
        """Return the records to send. Raises the errors of `process` and of conversion."""
        started = time.monotonic()
        self.context.assignment = assignment
        batch = self.processor.read(fetched)
        outgoing = self.processor.written(self.task.process(batch) if len(batch) else None)
        took_s = time.monotonic() - started
        self.batches.took(len(fetched), took_s)
        self.counters.polled(len(fetched), took_s)
        return outgoing

    def refused(self) -> float:
        """Count a temporary failure; returns for how many seconds to pause before the next try."""
        self.counters.errors.retries += 1
        return self.batches.refused()


class _Origin(dict[str, Any]):
    """The place of an input record as a source partition, with the record as it was read if that is kept."""

    as_read: SinkRecord | None

    @classmethod
    def of(cls, topic: str, partition: int | None, as_read: SinkRecord | None) -> "_Origin":
        made = cls({_TOPIC: topic, _PARTITION: partition})
        made.as_read = as_read
        return made


class _Origins(Sequence[Mapping[str, Any]]):
    """Places as source partitions, created on access."""

    def __init__(self, places: Sequence[TopicPartition], as_read: Sequence[SinkRecord | None] | None) -> None:
        self._places = places
        self._as_read = as_read

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> "_Origins": ...
    def __getitem__(self, index: int | slice) -> "Mapping[str, Any] | _Origins":
        if isinstance(index, slice):
            return _Origins(self._places[index], None if self._as_read is None else self._as_read[index])
        return _Origin.of(*self._places[index], None if self._as_read is None else self._as_read[index])


def batches_of(result: Any) -> list[Batch]:
    """Return the result of `process` as batches. Raises FatalError for anything but rows."""
    if result is None:
        return []
    if isinstance(result, Batch):
        return [result]
    if isinstance(result, SinkBatch):
        return _of_columns(result)
    if isinstance(result, str | bytes | Mapping) or not isinstance(result, Sequence):
        raise FatalError(f"process returned {type(result).__name__}; return a batch, a list of batches or of records")
    return _of_several(result)


def _of_several(results: Sequence[Any]) -> list[Batch]:
    batches: list[Batch] = []
    records: list[SourceRecord] = []
    for each in results:
        if isinstance(each, SinkRecord):
            records.append(_record(each))
            continue
        if not isinstance(each, Batch | SinkBatch):
            raise FatalError(f"process returned a list with {type(each).__name__}; batches and SinkRecords are rows")
        batches += [*Batch.of_records(records), *batches_of(each)]
        records = []
    return batches + Batch.of_records(records)


def _of_columns(rows: SinkBatch) -> list[Batch]:
    if len(rows):
        _ensure_goes_somewhere((rows.topics[0], rows.partitions[0]), rows.places[0])
    if not (isinstance(rows.value_schemas, Repeated) and isinstance(rows.key_schemas, Repeated)):
        return Batch.of_records([_record(record) for record in rows])
    return [
        Batch(
            rows.topics,
            rows.values,
            _Origins(rows.places, rows.as_read),
            PositionColumn(_OFFSET, rows.offsets),
            rows.value_schemas.value,
            unless_empty(rows.keys),
            rows.key_schemas.value,
            unless_empty(rows.partitions),
            unless_empty(rows.timestamps),
            rows.headers,
        )
    ]


def _ensure_goes_somewhere(target: tuple[str, int | None], place: TopicPartition | None) -> None:
    if target == place:
        raise FatalError(
            f"process returned records unchanged, which would write them back to {place.topic}, where they were "
            "read; name their destination with batch.to(topic) or record.to(topic)"
        )


def _record(record: SinkRecord) -> SourceRecord:
    topic, partition = record.at or (record.topic, record.kafka_partition)
    _ensure_goes_somewhere((record.topic, record.kafka_partition), record.at)
    return SourceRecord(
        _Origin.of(topic, partition, record.as_read),
        {_OFFSET: record.kafka_offset},
        record.topic,
        record.value,
        record.value_schema,
        record.key,
        record.key_schema,
        record.kafka_partition,
        record.timestamp,
        record.headers,
    )


def stream_processor_of(spec: TaskSpec, control: Control, counters: ErrorCounters) -> StreamProcessor:
    """Return the same for a stream: for its input, and for its output, whose settings begin with `output.`."""
    given = given_properties(spec)
    incoming = sink_processor(spec, conversion_of(spec, control, counters), given, spec.input.resend_topic)
    output = output_properties(given)
    way_out = ChainConfig(output, find)
    outgoing = source_processor(spec, conversion_of(spec, control, counters, way_out), output)
    return StreamProcessor(spec, incoming, outgoing)
