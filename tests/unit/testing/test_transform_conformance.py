"""The conformance class of transforms: each check fails for its fault alone, and for no transform without one."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from fencepost.api import (
    INT64,
    STRING,
    Record,
    RecordColumns,
    RecordError,
    Schema,
    SinkRecord,
    SourceRecord,
    Transform,
    TypedColumn,
    setting,
)
from fencepost.builtin.transform.insert_field import InsertFieldValue
from fencepost.builtin.transform.predicate import Filter
from fencepost.builtin.transform.router import RegexRouter
from fencepost.testing import TransformConformance
from support.conformance_verdicts import failed, verdicts

CHANGES = "test_changes_records"
INPUT = "test_leaves_its_input_unchanged"
SAME = "test_gives_the_same_each_time"
KIND = "test_keeps_the_kind_and_position_of_a_record"
COLUMNS = "test_columns_give_the_same_as_records"


class Upper(Transform):
    """Puts a field in capitals, filters records without it, and refuses numbers."""

    field: str = setting("field", default="name")

    def apply(self, record: Record) -> Record | None:
        if record.value is None or self.field not in record.value:
            return None
        return record.with_value(record.value_schema, self.changed(record.value))

    def changed(self, value: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(value[self.field], str):
            raise RecordError("not a text")
        return {**value, self.field: value[self.field].upper()}

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        left = batch.select([n for n, value in enumerate(batch.value.values) if value and self.field in value])
        values = [self.changed(value) for value in left.value.values]
        return left.replace(value=TypedColumn(left.value.schema, values))


class Names(TransformConformance):
    transform = Upper
    values = [{"name": "Ada"}, {"name": "tim"}, {"id": 3}, None, {"name": 4}, {"name": "x"}]


class TestUpper(Names):
    pass


class TestInsertField(TransformConformance):
    transform = InsertFieldValue
    config = {"static.field": "s", "static.value": "v", "partition.field": "p"}

    def records(self) -> list[SourceRecord]:
        schema = Schema.struct({"n": INT64, "name": STRING.optional()})
        typed = [SourceRecord({}, {"n": n}, "t", {"n": n, "name": "a" if n else None}, schema) for n in range(3)]
        return [*typed, SourceRecord({}, {"n": 3}, "t", {"n": 1}), SourceRecord({}, {"n": 4}, "t", {"n": 1.0})]


class TestRegexRouter(TransformConformance):
    transform = RegexRouter
    config = {"regex": "test(.*)", "replacement": "$1"}
    values = [1, 2]


class TestFilter(TransformConformance):
    transform = Filter
    values = [1, 2]


class ChangesNothing(Upper):
    def changed(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return dict(value)

    def apply(self, record: Record) -> Record | None:
        return record

    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        return batch


class ChangesInPlace(Upper):
    def apply(self, record: Record) -> Record | None:
        if record.value is not None and record.value.get("name") == "Ada":
            record.value["name"] = "ADA"
        return record.replace(topic="other")


class Counts(Upper):
    seen = 0

    def apply(self, record: Record) -> Record | None:
        self.seen += 1
        return record.replace(topic=f"t-{self.seen}")


class MakesSourceRecords(Upper):
    def apply(self, record: Record) -> Any:
        return SourceRecord({}, {}, record.topic) if isinstance(record, SinkRecord) else record.replace(topic="other")


class MovesOffsets(Upper):
    def apply(self, record: Record) -> Any:
        moved: Any = {"kafka_offset": 7} if isinstance(record, SinkRecord) else {"source_offset": {"n": 7}}
        return record.replace(topic="other", **moved)


class FiltersMoreInColumns(Upper):
    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        found = super().apply_batch(batch)
        return None if found is None else found.select(range(1, len(found)))


class FiltersLessInColumns(Upper):
    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        return batch


class ChangesMoreInColumns(Upper):
    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        found = super().apply_batch(batch)
        return None if found is None else found.replace(topics=["other"] * len(found))


class RefusesAll(Upper):
    def apply_batch(self, batch: RecordColumns) -> RecordColumns | None:
        return None


@pytest.mark.parametrize(
    ("made", "check", "said"),
    [
        (ChangesNothing, CHANGES, "None of the 6 records is changed"),
        (ChangesInPlace, INPUT, "has changed the value, .* of record 0 in place: return a copy"),
        (Counts, SAME, "The same instance gives .* for record 0 the second time"),
        (MakesSourceRecords, KIND, "returned SourceRecord for a SinkRecord"),
        (MovesOffsets, KIND, "has changed the position of record 0 from .*'n': 0.* to .*'n': 7"),
        (FiltersMoreInColumns, COLUMNS, "filters record 0, apply.. does not"),
        (FiltersLessInColumns, COLUMNS, "apply_batch.. gives .*Ada.* for record 0, apply.. .*ADA"),
        (ChangesMoreInColumns, COLUMNS, "apply_batch.. gives .'other'"),
        (RefusesAll, COLUMNS, "refuses all batches"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_each_check_fails_for_its_fault_alone(made: type[Transform], check: str, said: str) -> None:
    class Faulty(Names):
        transform = made

    found = failed(Faulty)
    assert list(found) == [check]
    assert re.search(said, found[check], re.DOTALL), found[check]


def test_column_check_is_skipped_for_a_transform_of_records_only() -> None:
    class One(Names):
        transform = Counts

    assert verdicts(One)[COLUMNS] == "skipped"


def test_transform_conformance_without_records_fails() -> None:
    class Nothing(Names):
        values = ()

    assert "There are no records" in failed(Nothing)[CHANGES]
