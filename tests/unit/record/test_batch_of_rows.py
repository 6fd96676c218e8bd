"""Rows as a batch: what each argument means, and how a mistake is put."""

import datetime as dt
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from fencepost.api import INT64, STRING, TIMESTAMP, Batch, Header, Schema

ROWS = [{"n": 1, "word": "one"}, {"n": 2, "word": "two"}]
SCHEMA = Schema.struct({"n": INT64, "word": STRING})


@dataclass
class Word:
    n: int
    word: str


def batch(rows: Any = ROWS, **more: Any) -> Batch:
    return Batch.of_rows(rows, **{"topic": "words", "source_partition": {"f": 1}, "offset": "n", **more})


def test_source_offset_is_taken_from_the_named_field() -> None:
    assert list(batch().source_offsets) == [{"n": 1}, {"n": 2}]
    assert batch().last_offsets() == [({"f": 1}, {"n": 2})]


def test_source_offset_is_returned_by_a_function_of_the_row() -> None:
    assert list(batch(offset=lambda row: {"at": row["n"] + 1}).source_offsets) == [{"at": 2}, {"at": 3}]


def test_former_argument_name_source_offset_is_accepted() -> None:
    made = Batch.of_rows(ROWS, topic="words", source_partition={"f": 1}, source_offset=lambda row: {"n": row["n"]})
    assert list(made.records()) == list(batch().records())


def test_value_schema_also_gives_the_schema_of_the_key() -> None:
    made = batch(value_schema=SCHEMA, key="word")
    assert (made.value_schema, made.key_schema) == (SCHEMA, STRING)
    assert list(made.keys or ()) == ["one", "two"]
    assert batch(key="word").key_schema is None


def test_timestamps_are_milliseconds_for_any_type_of_field() -> None:
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    rows = [{"n": 1, "at": at}, {"n": 2, "at": at.replace(tzinfo=None)}, {"n": 3, "at": 17}, {"n": 4, "at": None}]
    assert list(batch(rows, timestamp="at").timestamps or ()) == [1767225600000, 1767225600000, 17, None]


def test_headers_are_returned_by_a_function_of_the_row() -> None:
    made = batch(headers=lambda row: {"trace": row["word"]})
    assert list(made.headers or ()) == [(Header("trace", "one"),), (Header("trace", "two"),)]


def test_rows_may_be_instances_of_a_dataclass_or_come_from_an_iterator() -> None:
    assert list(batch([Word(1, "one"), Word(2, "two")]).records()) == list(batch().records())
    assert list(batch(iter(ROWS)).records()) == list(batch().records())
    assert len(batch([])) == 0


def test_arrow_table_becomes_a_batch_with_a_schema() -> None:
    table = pa.table({"n": pa.array([1, 2]), "at": pa.array([5, 6], pa.timestamp("ms"))})
    for rows in (table, table.to_batches()[0]):
        made = Batch.of_arrow(
            rows, topic="t", source_partition={"f": 1}, offset="n", key="n", timestamp="at", name="row"
        )
        assert made.value_schema == Schema.struct({"n": INT64.optional(), "at": TIMESTAMP.optional()}, name="row")
        assert made.key_schema == INT64.optional()
        assert list(made.timestamps or ()) == [5, 6]
        assert [row["n"] for row in made.values] == [1, 2]


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        ({"n": 1}, {}, r"takes a list of rows, not a single dict: write \[row\]"),
        ("text", {}, "takes a list of rows, not a single str"),
        (ROWS, {"offset": None}, "needs offset=: the field of a row"),
        (ROWS, {"offset": "m"}, "row 0 has no field 'm', which offset= names; it has: n, word"),
        ([ROWS[0], {"word": "x"}], {}, "row 1 has no field 'n'"),
        ([ROWS[0], 7], {}, "row 1 is 7: a row is a mapping"),
        (
            ROWS,
            {"offset": lambda row: row["n"]},
            r"offset= returned 1 for row 0: return a mapping, such as \{'at': 1\}",
        ),
        (ROWS, {"key": "w"}, "'w', which key= names"),
        (ROWS, {"timestamp": "word"}, "row 0: timestamp='word' names 'one', which is neither a datetime nor"),
        (ROWS, {"timestamp": "at"}, "'at', which timestamp= names"),
        (ROWS, {"headers": lambda row: [row]}, "headers= returned .* for row 0: return a mapping of names"),
        (ROWS, {"source_partition": "a.txt"}, "source_partition='a.txt' is not a mapping; write {'name': 'a.txt'}"),
    ],
)
def test_error_about_rows_names_the_row_and_the_remedy(rows: Any, more: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        batch(rows, **more)
