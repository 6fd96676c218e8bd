"""Converters and transforms of a sink of which some run in another process (`task/conversion/mixed.py`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from fencepost.api import SinkRecord, SourceRecord
from fencepost.hook.hosted_chain import RAW, ChainUse, HostedStep, Role
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import SinkBatch
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.conversion.mixed import (
    LocalStep,
    Mixed,
    Row,
    Step,
    ToBytes,
    converter_step,
    hosted_parts,
    pairs,
    raw,
    steps_of_links,
)
from fencepost.task.conversion.plugins import Conversion, chain_config, conversion_of
from fencepost.task.failure.tolerance import ErrorCounters
from fencepost.task.sink.processing import SinkProcessor, before_resent, raw_record


@dataclass
class MixedSinkProcessor(SinkProcessor):
    """Turns fetched records into batches for `put`: the converters of key, value and headers, then transforms.

    The converters all read what was fetched, so their order is free: those of this process come first, and a batch
    crosses once for those of the other and the transforms there.
    """

    use: ChainUse = field(kw_only=True)
    require_form: Callable[[SinkRecord], None] | None = None
    """Raises RecordError for a record that the task of a Java sink cannot be sent."""

    def __post_init__(self) -> None:
        steps: list[Step] = [
            converter_step(Role.KEY, self.key_converter, self._convert_key),
            converter_step(Role.VALUE, self.value_converter, self._convert_value),
            converter_step(Role.HEADER, self.header_converter, self._convert_headers),
            *steps_of_links(self.chain, self.use.config),
        ]
        if self.require_form is not None:
            steps.append(LocalStep(Role.TRANSFORM, self._has_form))
        self._mixed = Mixed(steps, self.use, self.tolerance)
        self._back: Mixed | None = None

    def process(self, fetched: Fetched) -> SinkBatch:
        """Return the records that are to be put. Raises FatalError if an error is not tolerated, and HostLostError."""
        self._fetched = fetched
        rows = [self._row(fetched, index) for index in range(len(fetched))]
        rows = self._mixed.run(rows, self._places(has_headers=fetched.headers is not None))
        return SinkBatch.of_records([self._of_read(row.record, row.original) for row in rows])

    def close(self) -> None:
        super().close()
        self._mixed.close()
        if self._back is not None:
            self._back.close()

    def abandon(self) -> None:
        self._mixed.abandon()

    def open(self) -> None:
        self._mixed.open()

    def _places(self, *, has_headers: bool) -> list[int]:
        converters = range(3) if has_headers else range(2)
        hosted = [place for place in converters if isinstance(self._mixed.steps[place], HostedStep)]
        local = [place for place in range(2) if place not in hosted]
        headers = [2] if has_headers and 2 not in hosted else []
        return [*local, *hosted, *headers, *range(3, len(self._mixed.steps))]

    def _row(self, fetched: Fetched, index: int) -> Row:
        original = raw_record(fetched, index)
        topic, timestamp = original.topic, original.timestamp
        headers = () if fetched.headers is None else fetched.headers[index]
        if topic == self.resend_topic:
            topic, timestamp, headers = before_resent(topic, timestamp, headers)
        record = original.replace(
            topic=topic, timestamp=timestamp, headers=raw(headers), key_schema=RAW, value_schema=RAW
        )
        return Row(index, original, record)

    def _has_form(self, row: Row) -> bool:
        assert self.require_form is not None
        self.require_form(row.record)
        return True

    def _convert_key(self, row: Row) -> bool:
        record = row.record
        found = self.key_converter.to_connect_record(record.topic, pairs(record), record.key)
        row.record = record.with_key(*found)
        return True

    def _convert_value(self, row: Row) -> bool:
        record = row.record
        found = self.value_converter.to_connect_record(record.topic, pairs(record), record.value)
        row.record = record.with_value(*found)
        return True

    def _convert_headers(self, row: Row) -> bool:
        if row.record.headers:
            row.record = row.record.replace(headers=tuple(self._headers(row.record.topic, pairs(row.record))))
        return True

    def _to_bytes(self, topic: str, record: SinkRecord) -> SinkRecord:
        if self._back is None:
            steps = ToBytes(self.header_converter, self.key_converter, self.value_converter).steps()
            strict = replace(self.tolerance, tolerates_all=False, tell=None)
            self._back = Mixed(steps, replace(self.use, is_source=True), strict)
        source = SourceRecord(
            {}, None, topic, record.value, record.value_schema, record.key, record.key_schema, headers=record.headers
        )
        [row] = self._back.run([Row(0, source, source)], range(3))
        return record.replace(key=row.record.key, value=row.record.value, headers=row.record.headers)


def sink_processor(
    spec: TaskSpec,
    conversion: Conversion,
    config: Mapping[str, str],
    resend_topic: str = "",
    require_form: Callable[[SinkRecord], None] | None = None,
) -> SinkProcessor:
    """Return the converters and transforms of records, wherever they run. `config` names them."""
    if require_form is None and not hosted_parts(*conversion[:-1]):
        return SinkProcessor(*conversion, resend_topic=resend_topic)
    use = ChainUse(spec.id, spec.incarnation, is_source=False, config=config)
    return MixedSinkProcessor(*conversion, resend_topic=resend_topic, use=use, require_form=require_form)


def sink_processor_of(spec: TaskSpec, control: Control, counters: ErrorCounters) -> SinkProcessor:
    """Return the converters, transforms and error handling that a sink's config asks for."""
    config = chain_config(spec)
    conversion = conversion_of(spec, control, counters, config)
    return sink_processor(spec, conversion, config.properties, spec.input.resend_topic, config.require_form)
