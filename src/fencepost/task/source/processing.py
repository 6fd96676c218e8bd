"""From what `poll` returned to what the producer takes: transforms, then converters.

Whole batches stay whole if nothing looks inside. A batch stays columns if no transform looks inside and the converters
take columns; otherwise its records are processed one by one, with retries and tolerance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from fencepost.api import Converter, HeaderConverter, SourceRecord
from fencepost.kafka.value.whole import PolledBatches
from fencepost.record import (
    Batch,
    BytesColumn,
    Header,
    HeaderBytes,
    HeaderColumn,
    ReadHeader,
    Repeated,
    Schema,
    Utf8Column,
)
from fencepost.record.schema import STRING
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.control import Control
from fencepost.task.delivery.outgoing import Outgoing, OutgoingBatches, OutgoingColumns
from fencepost.task.failure.dead_letter import class_of
from fencepost.task.failure.tolerance import ErrorCounters, Tolerance
from fencepost.task.failure.transaction_dead_letters import TransactionDeadLetters
from fencepost.task.life.plugins import conversion_of
from fencepost.transform.chain import Chain


@dataclass
class Processor:
    """Turns batches into `Outgoing`. Belongs to one task and one thread."""

    chain: Chain
    key_converter: Converter
    value_converter: Converter
    header_converter: HeaderConverter
    tolerance: Tolerance
    letters: TransactionDeadLetters | None = None
    """Takes the records that could not be processed, if there is a dead letter topic."""

    @cached_property
    def keeps_bytes(self) -> bool:
        """Say whether keys, values and headers that are bytes pass unchanged, without a look inside."""
        nothing = BytesColumn()
        headers: object = self.header_converter.from_header_column(HeaderColumn(nothing))  # type: ignore[arg-type]
        converted = [each.from_column(None, nothing) for each in (self.key_converter, self.value_converter)]
        return not self.chain.links and all(each is nothing for each in (headers, *converted))

    @property
    def keeps_columns(self) -> bool:
        """Say whether a column of bytes, or of text, passes unchanged, without a look inside."""
        if self.chain.apply_topics_only(Repeated("", 1)) is None:
            return False
        raw = BytesColumn()
        text = self.value_converter.from_column(STRING, Utf8Column(raw))  # type: ignore[arg-type]
        return text is raw or self.value_converter.from_column(None, raw) is raw

    def process(self, batch: Batch) -> Outgoing:
        """Return the batch's records that are to be sent. Raises FatalError if an error is not tolerated."""
        if isinstance(batch, PolledBatches) and self.keeps_bytes:
            return OutgoingBatches(batch.topics, batch.kafka_partitions or (), batch.batches)
        columns = self._as_columns(batch)
        return columns if columns is not None else self._one_by_one(batch)

    def close(self) -> None:
        self.chain.close()

    def _as_columns(self, batch: Batch) -> OutgoingColumns | None:
        headers = self._header_column(batch)
        if headers is None and batch.headers is not None:
            return None
        topics = self.chain.apply_topics_only(batch.topics)
        if topics is None:
            return None
        values = self.value_converter.from_column(batch.value_schema, batch.values)
        if values is None:
            return None
        keys = self._key_column(batch)
        if keys is None and batch.keys is not None:
            return None
        return OutgoingColumns(topics, values, keys, batch.kafka_partitions, batch.timestamps, headers)

    def _key_column(self, batch: Batch) -> Sequence[bytes | None] | None:
        if batch.keys is None:
            return None
        return self.key_converter.from_column(batch.key_schema, batch.keys)

    def _header_column(self, batch: Batch) -> Sequence[Sequence[HeaderBytes]] | None:
        if not isinstance(batch.headers, HeaderColumn):
            return None
        return self.header_converter.from_header_column(batch.headers)

    def _one_by_one(self, batch: Batch) -> OutgoingColumns:
        rows: list[tuple[int, SourceRecord, bytes | None, bytes | None, list[HeaderBytes]]] = []
        if self.letters is not None:
            self.letters.clear()
        for index, record in enumerate(batch.records()):
            row = self._row(index, record)
            if row is not None:
                rows.append(row)
            elif self.letters is not None:
                self.letters.at(index)
        return OutgoingColumns(
            topics=[r.topic for _, r, _, _, _ in rows],
            values=[value for _, _, _, value, _ in rows],
            keys=[key for _, _, key, _, _ in rows],
            partitions=_column_or_none([r.kafka_partition for _, r, _, _, _ in rows]),
            timestamps=_column_or_none([r.timestamp for _, r, _, _, _ in rows]),
            headers=[headers for _, _, _, _, headers in rows],
            sources=[index for index, _, _, _, _ in rows],
            letters=None if self.letters is None else self.letters.take(),
        )

    def _row(
        self, index: int, record: SourceRecord
    ) -> tuple[int, SourceRecord, bytes | None, bytes | None, list[HeaderBytes]] | None:
        is_kept, changed = self.tolerance.run("TRANSFORMATION", lambda: self.chain.apply(record), record)
        if not is_kept or changed is None:
            return None
        is_kept, headers = self.tolerance.run("HEADER_CONVERTER", lambda: self._headers(changed), record)
        if not is_kept:
            return None
        is_kept, key = self._converted("KEY_CONVERTER", self.key_converter, changed, changed.key_schema, changed.key)
        if not is_kept:
            return None
        is_kept, value = self._converted(
            "VALUE_CONVERTER", self.value_converter, changed, changed.value_schema, changed.value
        )
        return (index, changed, key, value, headers or []) if is_kept else None

    def _converted(
        self, stage: str, converter: Converter, record: SourceRecord, schema: Schema | None, value: Any
    ) -> tuple[bool, bytes | None]:
        return self.tolerance.run(stage, lambda: converter.from_connect_data(record.topic, schema, value), record)

    def _headers(self, record: SourceRecord) -> list[HeaderBytes]:
        return [(h.key, self._header(record.topic, h)) for h in record.headers]

    def _header(self, topic: str, header: Header) -> bytes | None:
        if isinstance(header, ReadHeader) and self._is_unchanged(topic, header):
            return header.raw
        return self.header_converter.from_connect_header(topic, header.key, header.schema, header.value)

    def _is_unchanged(self, topic: str, header: ReadHeader) -> bool:
        """Say whether a header is as it was read; a list or a map may have been changed in place."""
        if not hasattr(header, "raw"):  # `_replace` made it
            return False
        if not isinstance(header.value, list | dict):
            return True
        return self.header_converter.to_connect_header(topic, header.key, header.raw) == (header.schema, header.value)


def _column_or_none(column: list[int | None]) -> list[int | None] | None:
    return None if all(v is None for v in column) else column


def processor_of(spec: TaskSpec, control: Control, counters: ErrorCounters) -> Processor:
    """Return the transforms, converters and error handling that a source's config asks for."""
    processor = Processor(*conversion_of(spec, control, counters))
    if spec.dead_letters.topic and processor.tolerance.tolerates_all:  # else the task fails instead of going past it
        processor.letters = TransactionDeadLetters(spec, partial(class_of, processor))
        processor.tolerance.tell = processor.letters.tell
    return processor
