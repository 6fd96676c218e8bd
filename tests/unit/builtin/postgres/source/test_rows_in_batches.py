"""Changes become batches of columns: the same records, in the same order within each topic."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api import Batch, SourceRecord
from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.postgres.envelope import TableShape
from fencepost.builtin.postgres.source import writer as module
from fencepost.builtin.postgres.source.changes import ChangePlace
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.builtin.postgres.source.writer import RecordWriter, Row, runs
from fencepost.postgres.catalog import Column, Table
from fencepost.postgres.pgoutput import UNCHANGED, Begin, Delete, Insert, Truncate, Update
from support.postgres_config import MINIMAL

CONVERTER = JsonConverter({"schemas.enable": "false"})
TABLES = (1, 2, 3)

texts = st.none() | st.text(st.characters(exclude_categories=("Cs",)), max_size=3)
rows = st.tuples(st.integers(0, 3).map(str), texts, st.sampled_from([None, "1.50", "NaN", "infinity"])).map(
    lambda row: [row[0], row[1], None if row[2] == "infinity" else row[2], "infinity" if row[2] == "infinity" else None]
)
changes = st.one_of(
    st.builds(Insert, st.sampled_from(TABLES), rows),
    st.builds(lambda oid, new: Update(oid, None, False, new), st.sampled_from(TABLES), rows),
    st.builds(lambda oid, new: Update(oid, None, False, [new[0], UNCHANGED, *new[2:]]), st.sampled_from(TABLES), rows),
    st.builds(lambda oid, old, new: Update(oid, old, True, new), st.sampled_from(TABLES), rows, rows),
    st.builds(lambda oid, old: Delete(oid, old, True), st.sampled_from(TABLES), rows),
    st.builds(lambda oid: Truncate((oid,), False, False), st.sampled_from(TABLES)),
)


def table(oid: int) -> Table:
    columns = (
        Column("id", 1, 20, -1, "int8", not_null=True),
        Column("text", 2, 25, -1, "text"),
        Column("price", 3, 1700, (10 << 16) + 2 + 4, "numeric"),
        Column("at", 4, 1114, -1, "timestamp"),
    )
    return Table(oid, "shop", "one two" if oid == 3 else "one_two" if oid == 2 else "own", columns, key=("id",))


def made(**config: str) -> RecordWriter:
    settings = SourceSettings(MINIMAL | config)
    found = RecordWriter(settings, None)
    found._shapes = {oid: TableShape(table(oid), settings) for oid in TABLES}
    return found


def places() -> Iterator[ChangePlace]:
    for number in range(1, 10_000):
        yield ChangePlace(
            number * 8, Begin(number // 3 * 24, 1_700_000_000_000_000 + number, number // 3), number // 3 * 8
        )


def written(record: SourceRecord) -> tuple[str, Any, Any]:
    converted = (
        CONVERTER.from_connect_data("t", record.key_schema, record.key),
        CONVERTER.from_connect_data("t", record.value_schema, record.value),
    )
    return (record.topic, *converted)


def written_batch(batch: Batch) -> list[tuple[str, Any, Any]]:
    keys = CONVERTER.from_column(batch.key_schema, batch.keys) if batch.keys is not None else None
    values = CONVERTER.from_column(batch.value_schema, batch.values)
    if values is None or keys is None:  # a text that is written one by one
        return [written(batch.record(row)) for row in range(len(batch))]
    return list(zip(batch.topics, keys, values, strict=True))


def by_topic(records: Sequence[tuple[str, Any, Any]], *, is_whole: bool) -> Any:
    return records if is_whole else {topic: [each for each in records if each[0] == topic] for topic, _, _ in records}


@pytest.mark.parametrize("transforms", ["", "route"])
@given(given=st.lists(changes, max_size=12))
def test_changes_become_the_same_records_in_the_order_of_each_topic(given: list[Any], transforms: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FEW", 2)
        patch.setattr(module, "now_us", lambda: 0)
        own = made(**({"transforms": transforms} if transforms else {}))
        waiting = [one for change, place in zip(given, places(), strict=False) for one in own.change(change, place)]
        found = [
            record
            for part in own.batches(waiting)
            for record in (written_batch(part) if isinstance(part, Batch) else map(written, part))
        ]
        expected = [
            written(one) for change, place in zip(given, places(), strict=False) for one in own._records(change, place)
        ]
    assert by_topic(found, is_whole=bool(transforms)) == by_topic(expected, is_whole=bool(transforms))


def test_rows_of_tables_that_take_turns_are_put_together() -> None:
    own = made()
    turns = zip([1, 2] * 4, places(), strict=False)
    waiting = [one for oid, place in turns for one in own.change(Insert(oid, ["1", "a", None, None]), place)]
    assert [len(run) for run in runs(waiting, is_order_kept=False)] == [4, 4]
    assert [len(run) for run in runs(waiting, is_order_kept=True)] == [1] * 8


def test_rows_of_two_tables_with_one_topic_are_not_put_together() -> None:
    own = made()
    turns = zip([2, 3] * 2, places(), strict=False)
    waiting = [one for oid, place in turns for one in own.change(Insert(oid, ["1", "a", None, None]), place)]
    assert len({one.topic for one in waiting}) == 1
    assert [len(run) for run in runs(waiting, is_order_kept=False)] == [1] * 4


def test_rows_are_waiting_only_where_columns_can_have_them() -> None:
    place = next(places())
    insert = Insert(1, ["1", "a", None, None])
    assert isinstance(made().change(insert, place)[0], Row)
    assert not isinstance(made(**{"skipped.operations": "u"}).change(insert, place)[0], Row)
    assert not isinstance(made(**{"provide.transaction.metadata": "true"}).change(insert, place)[0], Row)


def test_rows_of_a_table_without_columns_become_a_batch() -> None:
    settings = SourceSettings(MINIMAL)
    own = RecordWriter(settings, None)
    own._shapes = {1: TableShape(Table(1, "shop", "empty", ()), settings)}
    given = zip(range(module._FEW), places(), strict=False)
    (batch,) = own.batches([one for _, place in given for one in own.change(Insert(1, []), place)])
    assert [batch.record(row).value["after"] for row in range(len(batch))] == [{}] * module._FEW
