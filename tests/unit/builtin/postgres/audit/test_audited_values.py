"""What an audit of a database makes of values that do not fit, and of ids of transactions."""

import pytest

from fencepost.api import Schema, SchemaType
from fencepost.builtin.postgres.audit.form import form_of
from fencepost.builtin.postgres.audit.snapshot import Visible
from fencepost.builtin.postgres.audit.table import ComparedColumn, ComparedTable
from fencepost.builtin.postgres.envelope.meaning import Kind

WRAP = 1 << 32


@pytest.mark.parametrize(
    ("xid", "is_shown"),
    [(99, True), (97, False), (100, False), (105, False), (WRAP - 5, True), (100 + (1 << 31), True), (1 << 29, True)],
)
def test_snapshot_shows_all_but_running_and_later_transactions(xid: int, is_shown: bool) -> None:
    assert (xid in Visible(100, frozenset({97}))) is is_shown


def test_snapshot_shows_a_transaction_that_is_two_billion_older() -> None:
    assert 10 in Visible(2**31 + 50, frozenset())


def test_snapshot_does_not_show_a_later_transaction_after_ids_wrap() -> None:
    assert 3 not in Visible(WRAP - 2, frozenset())


@pytest.mark.parametrize(("kind", "type_"), [("float8", SchemaType.FLOAT64), ("float4", SchemaType.FLOAT32)])
def test_value_that_does_not_fit_its_column_is_unreadable(kind: str, type_: SchemaType) -> None:
    form = form_of(Kind(kind), Schema(type_))
    assert form is not None
    column = ComparedColumn("n", "n", form.sql, form.text)
    assert column.text_of("a text") == column.text_of([]) != column.text_of(1.0)
    table = ComparedTable(1, "t", "t", (), (), (column,))
    assert table.hashed([], {"n": "a text"}) == table.hashed([], {"n": []})
