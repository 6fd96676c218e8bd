"""Transforms and converters of a source of which some run in another process (`task/conversion/mixed.py`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from fencepost.api import SourceRecord
from fencepost.config.cluster import ClosedTopics
from fencepost.hook.hosted_chain import RAW, ChainUse, HostedStep
from fencepost.hook.hosted_task import HostedBatch
from fencepost.record import Batch
from fencepost.record.java_value import as_java_writes
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.conversion.mixed import Mixed, Row, ToBytes, hosted_parts, pairs, steps_of_links
from fencepost.task.conversion.plugins import Conversion, chain_config, conversion_of
from fencepost.task.delivery.outgoing import OutgoingColumns
from fencepost.task.failure.dead_letter import class_of
from fencepost.task.failure.dead_letter_producer import TransactionDeadLetters
from fencepost.task.failure.tolerance import ErrorCounters
from fencepost.task.source.processing import Processor, column_or_none


@dataclass
class MixedProcessor(Processor):
    """Turns batches into records to send: transforms, then the converters of headers, key and value.

    A record without headers that crosses for the last transform goes through the other side's converters in the same
    crossing, even if the header converter, which has nothing to do, is on this side.
    """

    use: ChainUse = field(kw_only=True)

    def __post_init__(self) -> None:
        links = steps_of_links(self.chain, self.use.config)
        self._links = range(len(links))
        self._header_place, self._key_place, self._value_place = range(len(links), len(links) + 3)
        steps = [*links, *ToBytes(self.header_converter, self.key_converter, self.value_converter).steps()]
        self._mixed = Mixed(steps, self.use, self.tolerance, self._dropped)

    @property
    def keeps_bytes(self) -> bool:
        return False

    @property
    def keeps_columns(self) -> bool:
        return False

    def open(self) -> None:
        self._mixed.open()

    def process(self, batch: Batch) -> OutgoingColumns:
        """Return the batch's records that are to be sent.

        Raises FatalError if an error is not tolerated, and HostLostError.
        """
        if self.letters is not None:
            self.letters.clear()
        dropped = self.tell_of_left_out(batch) if isinstance(batch, HostedBatch) else ()
        records = enumerate(batch.records())
        rows = [Row(index, record, record) for index, record in records if index not in dropped]
        early = self._early()
        rows = self._mixed.run(rows, [*self._links, *early])
        rows = [row for row in rows if self._may_go(row)]
        done = [row for row in rows if early and self._is_converted(row.record)]
        waiting = [row for row in rows if not (early and self._is_converted(row.record))]
        converters = (self._header_place, self._key_place, self._value_place)
        done = self._mixed.run(done, [place for place in converters if place not in early])
        waiting = self._mixed.run(waiting, converters)
        return self._outgoing(sorted([*done, *waiting], key=lambda row: row.index))

    def close(self) -> None:
        super().close()
        self._mixed.close()

    def abandon(self) -> None:
        self._mixed.abandon()

    def _early(self) -> list[int]:
        """Return the other side's converters that records without headers meet together with the last transform."""
        if not self._links or not self._is_hosted(self._links[-1]) or self._is_hosted(self._header_place):
            return []
        if not self._is_hosted(self._key_place) and self.key_converter.headers_read:
            return []
        return [place for place in (self._key_place, self._value_place) if self._is_hosted(place)]

    def _is_hosted(self, place: int) -> bool:
        return isinstance(self._mixed.steps[place], HostedStep)

    def _is_converted(self, record: SourceRecord) -> bool:
        """Say whether the early converters have converted the record: the other side leaves those with headers."""
        return record.value_schema is RAW if self._is_hosted(self._value_place) else record.key_schema is RAW

    def _may_go(self, row: Row) -> bool:
        is_kept = self.may_go(row.record.topic, row.original)
        if not is_kept:
            self._dropped(row.index)
        return is_kept

    def _dropped(self, index: int) -> None:
        if self.letters is not None:
            self.letters.at(index)

    def _outgoing(self, rows: list[Row]) -> OutgoingColumns:
        records = [row.record for row in rows]
        return OutgoingColumns(
            topics=[record.topic for record in records],
            values=[record.value for record in records],
            keys=[record.key for record in records],
            partitions=column_or_none([record.kafka_partition for record in records]),
            timestamps=column_or_none([record.timestamp for record in records]),
            headers=[[(as_java_writes(name), data) for name, data in pairs(record)] for record in records],
            sources=[row.index for row in rows],
            letters=None if self.letters is None else self.letters.take(),
        )


def source_processor(
    spec: TaskSpec, conversion: Conversion, config: Mapping[str, str], *, takes_records: bool = False
) -> Processor:
    """Return the transforms and converters of records, wherever they run. `config` names them."""
    closed = ClosedTopics(spec.look_up.closed.writes)
    if not takes_records and not hosted_parts(*conversion[:-1]):
        return Processor(*conversion, closed=closed)
    use = ChainUse(spec.id, spec.incarnation, is_source=True, config=config)
    return MixedProcessor(*conversion, closed=closed, use=use)


def processor_of(spec: TaskSpec, control: Control, counters: ErrorCounters) -> Processor:
    """Return the transforms, converters and error handling that a source's config asks for."""
    config = chain_config(spec)
    conversion = conversion_of(spec, control, counters, config)
    processor = source_processor(spec, conversion, config.properties, takes_records=config.takes_records)
    if spec.dead_letters.topic and processor.tolerance.tolerates_all:  # else the task fails instead of going past it
        processor.letters = TransactionDeadLetters(spec, partial(class_of, processor))
        processor.tolerance.tell = processor.letters.tell
    return processor
