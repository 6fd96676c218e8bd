"""What every transform must do, as tests: `class TestMine(TransformConformance)`."""

import unittest
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

from fencepost.api import ConnectRecord, RecordColumns, Repeated, SinkRecord, SourceRecord, TopicPartition, Transform
from fencepost.builtin.transform.chain import Chain, Link
from fencepost.record import Batch
from fencepost.testing.source_run import properties_of

_TOPIC = "testing"
_PLACE = TopicPartition(_TOPIC, 0)
_NONE = "There are no records: set `values`, or override `records`"


class TransformConformance:
    """Checks of a transform, which gets records with `values` and without a schema, unless `records` returns others.

    >>> from fencepost.testing import TransformConformance
    >>> from fencepost.builtin.transform.mask_field import MaskFieldValue
    >>> class TestMask(TransformConformance):
    ...     transform = MaskFieldValue
    ...     config = {"fields": "name"}
    ...     values = [{"name": "Ada", "age": 36}, {"name": "Tim", "age": 9}, None]
    >>> TestMask().test_columns_give_the_same_as_records()  # pytest calls all of them
    """

    transform: ClassVar[type[Transform]]
    config: ClassVar[Mapping[str, object]] = {}
    values: ClassVar[Sequence[Any]] = ()

    def records(self) -> Sequence[SourceRecord]:
        """Return the records, as a source returns them. A sink's are made from them."""
        values = deepcopy(self.values)  # a check may find that the transform changes them
        return [SourceRecord({"source": "a"}, {"n": n}, _TOPIC, value) for n, value in enumerate(values)]

    def test_changes_records(self) -> None:
        """Check that at least one record is changed or filtered: otherwise the other checks prove nothing."""
        records = self.records()
        assert records, _NONE
        changed = [_contents(record) != self._applied(self._made(), record) for record in records]
        assert any(changed), f"None of the {len(records)} records is changed: choose `values` and a `config` that do"

    def test_leaves_its_input_unchanged(self) -> None:
        """Check that `apply` changes no value in place: others may have the same object."""
        made = self._made()
        for number, record in enumerate(self.records()):
            before = _contents(record)
            self._applied(made, record)
            assert _contents(record) == before, (
                f"apply() has changed the value, the key or the headers of record {number} in place: return a copy"
            )

    def test_gives_the_same_each_time(self) -> None:
        """Check that a record that comes again, to this instance or another, gives the same."""
        one, other = self._made(), self._made()
        first = [self._applied(one, record) for record in self.records()]
        for name, made in (("The same instance", one), ("Another instance", other)):
            for number, record in enumerate(self.records()):
                again = self._applied(made, record)
                assert again == first[number], (
                    f"{name} gives {again} for record {number} the second time, and {first[number]} the first: keep no "
                    "state between records, and take in nothing that differs each time"
                )

    def test_keeps_the_kind_and_position_of_a_record(self) -> None:
        """Check that a source's record stays one, with its source offset, and a sink's too, with its offset."""
        made = self._made()
        for number, record in enumerate(self.records()):
            for given in (record, _of_sink(record, number)):
                changed = self._run(made, given)
                if changed is None or isinstance(changed, Exception):
                    continue
                assert type(changed) is type(given), (
                    f"apply() returned {type(changed).__name__} for a {type(given).__name__}: change the record "
                    "that it gets, with record.replace or record.with_value"
                )
                assert _position(changed) == _position(given), (
                    f"apply() has changed the position of record {number} from {_position(given)} to "
                    f"{_position(changed)}: after a crash, records would be missing or there twice"
                )

    def test_columns_give_the_same_as_records(self) -> None:
        """Check that `apply_batch` gives what `apply` does, or refuses the batch."""
        chain = Chain([Link("testing", self._made())])
        if not chain.takes_batches:
            raise unittest.SkipTest("the transform is called for each record: it has no apply_batch of its own")
        assert self.records(), _NONE
        taken = 0
        for batch in self._batches():
            changed = _columns(chain, batch)
            if changed is None:
                continue
            taken += 1
            by_row = dict(self._of_records(batch))
            for row, expected in by_row.items():
                assert expected is None or row in changed, f"apply_batch() filters record {row}, apply() does not"
            for row, found in changed.items():
                assert found == by_row[row], f"apply_batch() gives {found} for record {row}, apply() {by_row[row]}"
        assert taken, "apply_batch() refuses all batches of these records, so it never saves time"

    # the parts of the checks

    def _made(self) -> Transform:
        return self.transform(properties_of(self.config, {}))

    def _run(self, made: Transform, record: ConnectRecord) -> ConnectRecord | Exception | None:
        try:
            return made.apply(record)
        except Exception as error:  # the record is dropped, or fails the task
            return error

    def _applied(self, made: Transform, record: ConnectRecord) -> Any:
        changed = self._run(made, record)
        return repr(changed) if isinstance(changed, Exception) else _contents(changed)

    def _batches(self) -> Iterator[RecordColumns]:
        """Yield the records in batches of one, of two, and as large as possible, for a source and for a sink."""
        records = self.records()
        for size in (1, 2, max(3, len(records))):
            for start in range(0, len(records), size):
                for batch in map(RecordColumns.of_batch, Batch.of_records(records[start : start + size])):
                    count = len(batch)
                    yield batch
                    yield batch.replace(kafka_partitions=Repeated(0, count), kafka_offsets=range(count))

    def _of_records(self, batch: RecordColumns) -> Iterator[tuple[int, Any]]:
        made = self._made()
        for row, record in zip(batch.rows, _records(batch), strict=True):
            yield row, self._applied(made, record)


def _columns(chain: Chain, batch: RecordColumns) -> dict[int, Any] | None:
    """Return the contents of each record that is left of a batch, by its row; None if the batch is refused."""
    try:
        parts = chain.apply_batch(batch)
    except Exception:  # the runtime asks `apply` then
        return None
    if parts is None:
        return None
    return {row: _contents(record) for part in parts for row, record in zip(part.rows, _records(part), strict=True)}


def _records(batch: RecordColumns) -> Iterator[ConnectRecord]:
    """Yield the records of a batch as `apply` gets them."""
    for n, row in enumerate(batch.rows):
        value, key = (batch.value.values[n], batch.value.schema), (batch.key.values[n], batch.key.schema)
        partition, rest = batch.kafka_partitions[n], (batch.timestamps[n], batch.headers[n])
        if batch.kafka_offsets is None:
            yield SourceRecord({"source": "a"}, {"n": row}, batch.topics[n], *value, *key, partition, *rest)
        else:
            yield SinkRecord(batch.topics[n], partition, batch.kafka_offsets[n], *value, *key, *rest, _PLACE)


def _of_sink(record: SourceRecord, offset: int) -> SinkRecord:
    value, key = (record.value, record.value_schema), (record.key, record.key_schema)
    return SinkRecord(record.topic, 0, offset, *value, *key, record.timestamp, record.headers, _PLACE)


def _position(record: ConnectRecord) -> Any:
    if isinstance(record, SinkRecord):
        return record.kafka_offset, record.at
    return (record.source_partition, record.source_offset) if isinstance(record, SourceRecord) else None


def _contents(record: ConnectRecord | None) -> Any:
    """Return everything that a transform can change; 1, 1.0 and True differ in it. None for a filtered record."""
    if record is None:
        return None
    headers = [(header.key, header.schema, repr(header.value)) for header in record.headers]
    value, key = (repr(record.value), record.value_schema), (repr(record.key), record.key_schema)
    return record.topic, record.kafka_partition, record.timestamp, value, key, headers
