"""Turns fetched records into the batches that `put` receives: converters, then transforms.

A batch stays columns if the converters and the transforms take columns; otherwise its records are processed one by one,
with retries and tolerance. The columns never decide what is dropped or fails: a batch in which anything is unusual is
divided, and the parts that still are go one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import overload

from fencepost.api import Converter, HeaderConverter, UnavailableError
from fencepost.builtin.transform.chain import Chain
from fencepost.kafka.value.fetched import Fetched
from fencepost.record import (
    Header,
    ReadHeader,
    RecordColumns,
    Repeated,
    Runs,
    SinkBatch,
    SinkRecord,
    StructColumn,
    TopicPartition,
    TypedColumn,
    picked,
)
from fencepost.task.conversion.columns import (
    bytes_to_headers,
    column_to_connect,
    have_header_of,
    in_parts,
    topic_groups,
    unless_empty,
)
from fencepost.task.failure.dead_letter import RESENT, RESENT_TIMESTAMP, RESENT_TOPIC, number_of
from fencepost.task.failure.tolerance import Tolerance

Pairs = Sequence[tuple[str, bytes | None]]


@dataclass
class Kept:
    """Choices of what a processor keeps as it was read.

    Attributes:
        header_bytes: headers remember the bytes that they were read from, for output with the same converter.
        arrays: offsets and timestamps may be arrays in what is put: no author's code in this process gets them.
        columns: structs may stay columns in what is put (`SinkTask.takes_columns`).
        read: a record keeps all that was read, for its dead letter: it may be reported long after its batch.
    """

    header_bytes: bool = False
    arrays: bool = False
    columns: bool = False
    read: bool = False


@dataclass
class SinkProcessor:
    """Turns fetched records into batches for `put`. Belongs to one task and one thread."""

    chain: Chain
    key_converter: Converter
    value_converter: Converter
    header_converter: HeaderConverter
    tolerance: Tolerance
    resend_topic: str = ""
    """The topic whose records are treated as records of the topics that they came from."""
    keeps: Kept = field(default_factory=Kept)
    _fetched: Fetched = field(default_factory=Fetched)

    def process(self, fetched: Fetched) -> SinkBatch:
        """Return the records that are to be put. Raises FatalError if an error is not tolerated."""
        self._fetched = fetched = fetched if self.keeps.arrays else fetched.with_lists()
        try:
            whole = self._as_columns(fetched)
        except UnavailableError:
            return self._in_parts(fetched, is_away=True)
        return whole if whole is not None else self._in_parts(fetched)

    def close(self) -> None:
        self.chain.close()

    def open(self) -> None:
        """Begin the part in another process: nothing here."""

    def abandon(self) -> None:
        """End the part in another process: nothing here. Any thread."""

    def _as_columns(self, fetched: Fetched) -> SinkBatch | None:
        """Return the records as columns; None if they, or a transform or converter, need records one by one.

        Raises UnavailableError if what a transform or converter needs is away.
        """
        if fetched.headers is not None and self.resend_topic:
            return None
        try:
            converted = self._converted_columns(fetched)
            changed = [None if batch is None else self.chain.apply_batch(batch) for batch in converted]
        except UnavailableError:
            raise
        except Exception:  # processing one by one finds the record, and applies the tolerance
            return None
        found = [batches for batches in changed if batches is not None]
        return self._merged([*chain.from_iterable(found)], fetched) if len(found) == len(changed) else None

    def _merged(self, changed: Sequence[RecordColumns], fetched: Fetched) -> SinkBatch:
        full = [each for each in changed if len(each)] or changed[:1]
        found, rows = SinkBatch.joined([self._put(each, fetched) for each in full]), full[0].rows
        if len(full) > 1:
            rows = list(chain.from_iterable(each.rows for each in full))
            found = found.select(sorted(range(len(rows)), key=rows.__getitem__))
            rows = sorted(rows)
        # a task in another process keeps the bytes that it is sent
        return replace(found, as_read=AsRead(fetched, rows)) if self.keeps.read and not self.keeps.arrays else found

    def _put(self, batch: RecordColumns, fetched: Fetched) -> SinkBatch:
        """Return transformed records as `put` receives them: rows are objects, which authors may change in place."""
        count, is_whole = len(batch), batch.rows == range(len(fetched))
        values, keys = (
            list(each) if isinstance(each, StructColumn) and not self.keeps.columns else each
            for _, each in (batch.value, batch.key)
        )
        return SinkBatch(
            batch.topics,
            batch.kafka_partitions,
            fetched.offsets if is_whole else picked(fetched.offsets, batch.rows),
            values,
            Repeated(batch.value.schema, count),
            keys,
            Repeated(batch.key.schema, count),
            batch.timestamps,
            fetched.places if is_whole else picked(fetched.places, batch.rows),
            unless_empty(batch.headers),
        )

    def _converted_columns(self, fetched: Fetched) -> list[RecordColumns | None]:
        """Return the columns, one for each topic if the converters need that."""
        if have_header_of((self.key_converter, self.value_converter), fetched.headers or ()):
            return [None]
        topics, partitions = _apart(fetched.places)
        groups = topic_groups(topics, self.value_converter, self.key_converter)
        if len(groups) == 1:
            return [self._of_one_group(fetched, topics, partitions, groups[0])]
        return [
            self._of_one_group(_some(fetched, rows), picked(topics, rows), picked(partitions, rows), rows)
            for rows in groups
        ]

    def _of_one_group(
        self, fetched: Fetched, topics: Sequence[str], partitions: Sequence[int], rows: Sequence[int]
    ) -> RecordColumns | None:
        headers = None if fetched.headers is None else bytes_to_headers(self.header_converter, fetched.headers)
        if fetched.headers is not None and headers is None:
            return None
        values = column_to_connect(self.value_converter, topics, fetched.values)
        keys = column_to_connect(self.key_converter, topics, fetched.keys)
        if values is None or keys is None:
            return None
        return RecordColumns(
            topics,
            TypedColumn(*values),
            TypedColumn(*keys),
            partitions,
            fetched.timestamps,
            Repeated((), len(rows)) if headers is None else headers,
            rows,
            fetched.offsets,
        )

    def _in_parts(self, fetched: Fetched, *, is_away: bool = False) -> SinkBatch:
        def columns(start: int, stop: int) -> SinkBatch | None:
            return self._as_columns(fetched.part(start, stop))

        def one_by_one(start: int, stop: int) -> SinkBatch:
            return self._one_by_one(fetched, range(start, stop))

        divided = self.chain.takes_batches
        return SinkBatch.joined(in_parts(len(fetched), columns, one_by_one, is_divided=divided, is_away=is_away))

    def _one_by_one(self, fetched: Fetched, indexes: range) -> SinkBatch:
        records = (self._record(fetched, index) for index in indexes)
        return SinkBatch.of_records([record for record in records if record is not None])

    def _record(self, fetched: Fetched, index: int) -> SinkRecord | None:
        place, raw = fetched.places[index], raw_record(fetched, index)
        topic, pairs = place.topic, () if fetched.headers is None else fetched.headers[index]
        timestamp = raw.timestamp
        if topic == self.resend_topic:
            topic, timestamp, pairs = before_resent(topic, timestamp, pairs)
        is_kept, key = self.tolerance.run(
            "KEY_CONVERTER", lambda: self.key_converter.to_connect_record(topic, pairs, raw.key), raw
        )
        if not is_kept:
            return None
        is_kept, value = self.tolerance.run(
            "VALUE_CONVERTER", lambda: self.value_converter.to_connect_record(topic, pairs, raw.value), raw
        )
        if not is_kept:
            return None
        is_kept, headers = self.tolerance.run("HEADER_CONVERTER", lambda: self._headers(topic, pairs), raw)
        if not is_kept or key is None or value is None:
            return None
        record = raw.replace(
            topic=topic,
            key_schema=key[0],
            key=key[1],
            value_schema=value[0],
            value=value[1],
            timestamp=timestamp,
            headers=tuple(headers or ()),
        )
        is_kept, changed = self.tolerance.run_steps("TRANSFORMATION", partial(self.chain.apply, record), raw)
        return None if changed is None else self._of_read(changed, raw)

    def _of_read(self, record: SinkRecord, raw: SinkRecord) -> SinkRecord:
        """Return the record with its original and its origin: a transform may have made a new record."""
        if record.at is raw.at and not self.keeps.read:
            return record
        return replace(
            record, at=raw.at, kafka_offset=raw.kafka_offset, as_read=raw if self.keeps.read else record.as_read
        )

    def _headers(self, topic: str, pairs: Pairs) -> list[Header]:
        found = []
        for key, data in pairs:
            schema, value = self.header_converter.to_connect_header(topic, key, data)
            header = Header(key, value, schema)
            found.append(ReadHeader.of(header, data) if self.keeps.header_bytes else header)
        return found

    def raw_of(self, record: SinkRecord) -> SinkRecord:
        """Return a record of `put` as it was read. One that the task has made itself is converted to bytes."""
        found = record.as_read or self.read_at(record.at, record.kafka_offset)
        if found is not None:
            return found
        topic, partition = record.at or (record.topic, record.kafka_partition)
        found = self._to_bytes(topic, record)
        if topic == self.resend_topic:
            found = found.replace(headers=(*found.headers, Header(RESENT_TOPIC, record.topic.encode())))
        return found.replace(topic=topic, kafka_partition=partition)

    def read_at(self, place: TopicPartition | None, offset: int) -> SinkRecord | None:
        """Return a record of the last batch as it was read, or None if the batch has no such record."""
        for index, (each, own) in enumerate(zip(self._fetched.places, self._fetched.offsets, strict=True)):
            if own == offset and each == place:
                return raw_record(self._fetched, index)
        return None

    def _to_bytes(self, topic: str, record: SinkRecord) -> SinkRecord:
        """Return a record of an earlier batch with key, value and headers as the converters write them."""
        headers = [
            (h.key, self.header_converter.from_connect_header(topic, h.key, h.schema, h.value)) for h in record.headers
        ]
        key = self.key_converter.from_connect_record(topic, headers, record.key_schema, record.key)
        value = self.value_converter.from_connect_record(topic, headers, record.value_schema, record.value)
        return record.replace(key=key, value=value, headers=tuple(Header(name, data) for name, data in headers))


def raw_record(fetched: Fetched, index: int) -> SinkRecord:
    """Return a record as it was read: key, value and headers are bytes."""
    place = fetched.places[index]
    pairs = () if fetched.headers is None else fetched.headers[index]
    return SinkRecord(
        *place,
        fetched.offsets[index],
        fetched.values[index],
        key=fetched.keys[index],
        timestamp=fetched.timestamps[index],
        headers=tuple(Header(name, data) for name, data in pairs),
        at=place,
    )


class AsRead(Sequence[SinkRecord]):
    """Records as they were read, which are made when they are asked for."""

    def __init__(self, fetched: Fetched, rows: Sequence[int]) -> None:
        self._fetched = fetched
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> SinkRecord: ...
    @overload
    def __getitem__(self, index: slice) -> "AsRead": ...
    def __getitem__(self, index: int | slice) -> "SinkRecord | AsRead":
        if isinstance(index, slice):
            return AsRead(self._fetched, self._rows[index])
        return raw_record(self._fetched, self._rows[index])


def before_resent(topic: str, timestamp: int | None, pairs: Pairs) -> tuple[str, int | None, Pairs]:
    """Return topic, time and headers of a record before it was resent; unchanged if no header has them."""
    header_values = dict(pairs)
    origin, time = header_values.get(RESENT_TOPIC), header_values.get(RESENT_TIMESTAMP) or b""
    time_ms = number_of(time.decode("ascii", "replace"))
    own = [pair for pair in pairs if not pair[0].startswith(RESENT)]
    return (
        (topic if origin is None else origin.decode("utf-8", "replace")),
        (timestamp if time_ms is None else time_ms),
        own,
    )


def _some(fetched: Fetched, rows: Sequence[int]) -> Fetched:
    """Return the columns of some records. Their places are not needed."""
    return Fetched(
        fetched.places,
        picked(fetched.offsets, rows),
        picked(fetched.timestamps, rows),
        picked(fetched.keys, rows),
        picked(fetched.values, rows),
        None if fetched.headers is None else picked(fetched.headers, rows),
    )


def _apart(places: Sequence[TopicPartition]) -> tuple[Sequence[str], Sequence[int]]:
    if isinstance(places, Repeated):
        return Repeated(places.value.topic, len(places)), Repeated(places.value.partition, len(places))
    if isinstance(places, Runs):
        topics = Runs([place.topic for place in places.values], places.counts)
        return topics, Runs([place.partition for place in places.values], places.counts)
    return [place.topic for place in places], [place.partition for place in places]
