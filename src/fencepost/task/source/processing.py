"""Turns the results of `poll` into records for the producer: transforms, then converters.

Whole batches stay whole if nothing looks inside. A batch stays columns if the transforms and the converters take
columns; otherwise its records are processed one by one, with retries and tolerance. The columns never decide what is
dropped or fails: a batch in which anything is unusual is divided, and the parts that still are go one by one.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from fencepost.api import Converter, Form, HeaderConverter, RecordError, SourceRecord, UnavailableError
from fencepost.builtin.transform.chain import Chain
from fencepost.config.cluster import ALL_OPEN, CLOSED, ClosedTopics
from fencepost.hook.hosted_task import HostedBatch
from fencepost.kafka.produce.producer import batch_client_fault, sends_batches
from fencepost.kafka.setting.table import BATCH, CLIENT, DIGESTS
from fencepost.kafka.value.whole import PolledBatches
from fencepost.record import (
    Batch,
    BytesColumn,
    Header,
    HeaderBytes,
    HeaderColumn,
    PolledAt,
    ReadHeader,
    RecordColumns,
    TypedColumn,
    Utf8Column,
    distinct,
)
from fencepost.record.java_value import as_java_writes
from fencepost.record.schema import STRING
from fencepost.task.channel.split_message import SplitRun
from fencepost.task.channel.task_spec import TaskSpec
from fencepost.task.conversion.columns import (
    column_to_bytes,
    have_header_of,
    headers_to_bytes,
    in_parts,
    unless_empty,
    values_to_bytes,
)
from fencepost.task.delivery.outgoing import Outgoing, OutgoingBatches, OutgoingColumns, merged
from fencepost.task.failure.dead_letter_producer import TransactionDeadLetters
from fencepost.task.failure.tolerance import Tolerance

log = logging.getLogger(__name__)

_LOOKS = "transforms or converters look inside records"


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
    closed: ClosedTopics = ALL_OPEN
    """The topics that no record may go to. A record that would is one that cannot be processed."""

    @cached_property
    def keeps_bytes(self) -> bool:
        """Say whether keys, values and headers that are bytes pass unchanged, without a look inside."""
        nothing = BytesColumn()
        headers: object = headers_to_bytes(self.header_converter, HeaderColumn(nothing))  # type: ignore[arg-type]
        converted = [values_to_bytes(each, None, nothing) for each in (self.key_converter, self.value_converter)]
        return not self.chain.links and all(each is nothing for each in (headers, *converted))

    @property
    def keeps_columns(self) -> bool:
        """Say whether a column of bytes, or of text, stays one, as far as that does not depend on its values."""
        raw = BytesColumn()
        empty = RecordColumns.of_batch(Batch((), raw, (), ()))
        text = empty.replace(value=TypedColumn(STRING, Utf8Column(raw)))  # type: ignore[arg-type]
        try:
            return any(self._columns(each) is not None for each in (text, empty))
        except UnavailableError:
            return False

    def process(self, batch: Batch) -> Outgoing:
        """Return the batch's records that are to be sent. Raises FatalError if an error is not tolerated."""
        if isinstance(batch, PolledBatches) and self.keeps_bytes and self._is_open(batch.topics):
            return OutgoingBatches(batch.topics, batch.kafka_partitions or (), batch.batches)
        if self.letters is not None:
            self.letters.clear()
        if isinstance(batch, HostedBatch):
            return self._without_left_out(batch)
        try:
            columns = self._columns(RecordColumns.of_batch(batch))
        except UnavailableError:
            return self._in_parts(batch, is_away=True)
        return columns if columns is not None else self._in_parts(batch)

    def close(self) -> None:
        self.chain.close()

    def open(self) -> None:
        """Begin the part in another process: nothing here."""

    def abandon(self) -> None:
        """End the part in another process: nothing here. Any thread."""

    def _without_left_out(self, batch: HostedBatch) -> OutgoingColumns:
        """Return the rows that another process has converted; those it dropped are counted, logged and dead letters."""
        rows = self.tell_of_left_out(batch)
        if not self._is_open(batch.topics):
            indexes = (row for row in range(len(batch)) if row not in rows)
            rows |= {row for row in indexes if not self._goes_on(row, batch.record(row))}
        kept = RecordColumns.of_batch(batch).select([row for row in range(len(batch)) if row not in rows])
        outgoing = self._converted_columns(kept)
        assert outgoing is not None  # bytes pass as they are
        return replace(outgoing, letters=None if self.letters is None else self.letters.take())

    def tell_of_left_out(self, batch: HostedBatch) -> set[int]:
        """Count and log the records that another process dropped, and make dead letters of them. Returns their rows."""
        for row, stage, error, offset in batch.left_out:
            self.tolerance.failed(stage, error, replace(batch.record(row), source_offset=offset))
            if self.letters is not None:
                self.letters.at(row)
        return {each.row for each in batch.left_out}

    def _columns(self, batch: RecordColumns) -> OutgoingColumns | None:
        """Return the records as columns; None if the batch, or a transform or converter, needs records one by one.

        Raises UnavailableError if what a transform or converter needs is away.
        """
        try:
            changed = self.chain.apply_batch(batch)
            if changed is None:
                return None
            parts = [self._converted_columns(each) for each in changed if len(each) or not len(batch)]
        except UnavailableError:
            raise
        except Exception:  # processing one by one finds the record, and applies the tolerance
            return None
        found = [part for part in parts if part is not None]
        if len(found) < len(parts) or not all(self._is_open(part.topics) for part in found):
            return None
        outgoing = merged(found)
        return replace(outgoing, sources=None) if len(outgoing) == len(batch) else outgoing

    def _converted_columns(self, batch: RecordColumns) -> OutgoingColumns | None:
        headers = batch.headers.raw if isinstance(batch.headers, HeaderColumn) else batch.headers
        if have_header_of((self.key_converter, self.value_converter), headers):
            return None
        values = column_to_bytes(self.value_converter, batch.topics, *batch.value)
        if values is None:
            return None
        has_keys = unless_empty(batch.key.values) is not None or batch.key.schema is not None
        keys = column_to_bytes(self.key_converter, batch.topics, *batch.key) if has_keys else None
        if keys is None and has_keys:
            return None
        return OutgoingColumns(
            batch.topics,
            values,
            keys,
            unless_empty(batch.kafka_partitions),
            None if isinstance(batch.timestamps, PolledAt) else unless_empty(batch.timestamps),
            self._header_column(batch),
            batch.rows,
        )

    def _header_column(self, batch: RecordColumns) -> Sequence[Sequence[HeaderBytes]] | None:
        if unless_empty(batch.headers) is None:
            return None
        if isinstance(batch.headers, HeaderColumn):
            found = headers_to_bytes(self.header_converter, batch.headers)
            if found is not None:
                return found
        return [self._headers(*pair) for pair in zip(batch.topics, batch.headers, strict=True)]

    def _in_parts(self, batch: Batch, *, is_away: bool = False) -> OutgoingColumns:
        def columns(start: int, stop: int) -> OutgoingColumns | None:
            found = self._columns(RecordColumns.of_batch(batch.slice(start, stop)))
            return None if found is None else _moved(found, start)

        def one_by_one(start: int, stop: int) -> OutgoingColumns:
            return self._one_by_one(batch, range(start, stop))

        parts = in_parts(len(batch), columns, one_by_one, is_divided=self.chain.takes_batches, is_away=is_away)
        return replace(merged(parts), letters=None if self.letters is None else self.letters.take())

    def _one_by_one(self, batch: Batch, indexes: range) -> OutgoingColumns:
        rows: list[tuple[int, SourceRecord, bytes | None, bytes | None, list[HeaderBytes]]] = []
        for index in indexes:
            row = self._row(index, batch.record(index))
            if row is not None:
                rows.append(row)
            elif self.letters is not None:
                self.letters.at(index)
        return OutgoingColumns(
            topics=[r.topic for _, r, _, _, _ in rows],
            values=[value for _, _, _, value, _ in rows],
            keys=[key for _, _, key, _, _ in rows],
            partitions=column_or_none([r.kafka_partition for _, r, _, _, _ in rows]),
            timestamps=column_or_none([r.timestamp for _, r, _, _, _ in rows]),
            headers=[headers for _, _, _, _, headers in rows],
            sources=[index for index, _, _, _, _ in rows],
        )

    def _row(
        self, index: int, record: SourceRecord
    ) -> tuple[int, SourceRecord, bytes | None, bytes | None, list[HeaderBytes]] | None:
        is_kept, changed = self.tolerance.run_steps("TRANSFORMATION", partial(self.chain.apply, record), record)
        if not is_kept or changed is None or not self.may_go(changed.topic, record):
            return None
        is_kept, headers = self.tolerance.run(
            "HEADER_CONVERTER", lambda: self._headers(changed.topic, changed.headers), record
        )
        if not is_kept:
            return None
        added = headers or []  # converters add to them
        is_kept, key = self.tolerance.run("KEY_CONVERTER", lambda: self._key(changed, added), record)
        if not is_kept:
            return None
        is_kept, value = self.tolerance.run("VALUE_CONVERTER", lambda: self._value(changed, added), record)
        return (index, changed, key, value, added) if is_kept else None

    def may_go(self, topic: str, record: SourceRecord) -> bool:
        """Return whether a record, given as it was polled, may go to a topic; else it is one that failed."""
        if not self.closed.has(topic):
            return True
        self.tolerance.failed("TRANSFORMATION", RecordError(f"it would go to topic {topic}: {CLOSED}"), record)
        return False

    def _goes_on(self, row: int, record: SourceRecord) -> bool:
        is_kept = self.may_go(record.topic, record)
        if not is_kept and self.letters is not None:
            self.letters.at(row)
        return is_kept

    def _is_open(self, topics: Sequence[str]) -> bool:
        return not self.closed.names or not any(map(self.closed.has, distinct(topics)))

    def _key(self, record: SourceRecord, headers: list[HeaderBytes]) -> bytes | None:
        return self.key_converter.from_connect_record(record.topic, headers, record.key_schema, record.key)

    def _value(self, record: SourceRecord, headers: list[HeaderBytes]) -> bytes | None:
        return self.value_converter.from_connect_record(record.topic, headers, record.value_schema, record.value)

    def _headers(self, topic: str, headers: Sequence[Header]) -> list[HeaderBytes]:
        return [(as_java_writes(header.key), self._header(topic, header)) for header in headers]

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


def _moved(columns: OutgoingColumns, start: int) -> OutgoingColumns:
    sources = range(len(columns)) if columns.sources is None else columns.sources
    return replace(columns, sources=[start + index for index in sources])


def column_or_none(column: list[int | None]) -> list[int | None] | None:
    return None if all(v is None for v in column) else column


def chosen_conf(
    spec: TaskSpec, form: Form, make_processor: Callable[[], Processor], *, reads_batches: bool = False
) -> Mapping[str, Any]:
    """Return the producer settings of a task that may choose its client, with its choice."""
    if spec.commits.ledger_topic:
        left_out = spec.commits.ledger_topic, spec.output.offsets_topic
        return {**spec.output.producer_conf, CLIENT: BATCH, DIGESTS: left_out}
    if not spec.is_exactly_once or (form is Form.RECORDS and not reads_batches):
        return spec.output.producer_conf
    conf = {**spec.output.producer_conf, CLIENT: BATCH}
    refusal = batch_client_fault(spec.output.producer_conf)
    if refusal is None:
        processor = make_processor()
        with closing(processor):
            if reads_batches:
                refusal = batches_refusal(spec, conf, processor)
            elif not processor.keeps_columns:
                refusal = _LOOKS
    if refusal is not None:
        log.info("task %s writes with librdkafka: %s", spec.id, refusal)
        return spec.output.producer_conf
    log.info("task %s writes with the batch client", spec.id)
    return conf


def split_conf(run: SplitRun) -> Mapping[str, Any]:
    """Return the producer settings of a split's run, whose records are columns, with its choice of a client."""
    if not run.chooses_client or run.transactional_id is None:
        return run.producer_conf
    refusal = batch_client_fault(run.producer_conf)
    if refusal is not None:
        log.info("split run %s writes with librdkafka: %s", run.run, refusal)
        return run.producer_conf
    return {**run.producer_conf, CLIENT: BATCH}


def batches_refusal(spec: TaskSpec, conf: Mapping[str, Any], processor: Processor) -> str | None:
    """Return the reason why producers with these settings cannot copy record batches unopened, or None."""
    compression = conf.get("compression.type", "none")
    if not spec.is_exactly_once:
        return "the worker does not have exactly.once.source.support=enabled"
    if not sends_batches(conf):
        return "producer.client is librdkafka"
    if compression != "none":
        return f"the producer's compression.type is {compression}, but unopened batches keep their own compression"
    return None if processor.keeps_bytes else _LOOKS
