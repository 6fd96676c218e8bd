"""Columns that a change does not have are left out of it, and so keep their values."""

import pytest

from fencepost.api import INT64, STRING, Schema, SchemaType
from fencepost.builtin.postgres.envelope.unavailable import placeholders
from fencepost.builtin.postgres.sink.changes import Changes, Column, cut
from fencepost.builtin.postgres.sink.table_name import TableName

TEXT = "__debezium_unavailable_value"
KNOWN = placeholders(TEXT)
BYTES, INTEGERS = Schema(SchemaType.BYTES), Schema(SchemaType.ARRAY, value_schema=INT64)


def changes(**columns: tuple[Schema | None, list[object]]) -> Changes:
    found = [Column(name, schema, values) for name, (schema, values) in columns.items()]
    rows = range(len(found[0].values))
    return Changes(TableName("shop", "orders"), found, ["id"], None, rows)


def shown(found: Changes) -> dict[str, list[object]]:
    return {each.name: list(each.values) for each in found.columns}


def test_rows_are_cut_where_a_column_begins_or_ceases_to_be_unavailable() -> None:
    pieces = cut(changes(id=(STRING, ["1", "2", "3", "4"]), body=(STRING, ["a", TEXT, TEXT, None])), KNOWN)
    assert [(shown(piece), list(piece.rows)) for piece in pieces] == [
        ({"id": ["1"], "body": ["a"]}, [0]),
        ({"id": ["2", "3"]}, [1, 2]),
        ({"id": ["4"], "body": [None]}, [3]),
    ]


@pytest.mark.parametrize(
    ("schema", "mark"),
    [(None, TEXT), (BYTES, TEXT.encode()), (INTEGERS, list(TEXT.encode())), (STRING, f'{{"{TEXT}":"{TEXT}"}}')],
)
def test_placeholder_of_each_type_is_known(schema: Schema | None, mark: object) -> None:
    [piece] = cut(changes(id=(STRING, ["1"]), body=(schema, [mark])), KNOWN)
    assert shown(piece) == {"id": ["1"]}


def test_changes_with_all_values_and_keys_are_not_cut() -> None:
    whole = changes(id=(STRING, [TEXT, "2"]), body=(STRING, ["a", "b"]))
    assert list(cut(whole, KNOWN)) == [whole]


@pytest.mark.parametrize(
    ("text", "schema", "mark"),
    [("hex:00ff", BYTES, b"\x00\xff"), ("ä", STRING, '{"ä":"ä"}'), ("ä", INTEGERS, [-61, -92])],
)
def test_placeholder_has_the_form_that_the_setting_says(text: str, schema: Schema, mark: object) -> None:
    [piece] = cut(changes(id=(STRING, ["1"]), body=(schema, [mark])), placeholders(text))
    assert shown(piece) == {"id": ["1"]}
