"""Changes of keys, by what the old row has of them."""

import pytest

from fencepost.builtin.postgres.envelope import Events, Position, TableShape
from fencepost.postgres.catalog import Column, Table
from support.postgres_config import postgres_settings

AT = Position(5, 3, 7, 1_700_000_000_000_000)


def table(identity: str) -> Table:
    columns = (
        Column("id", 1, 23, -1, "int4", not_null=True),
        Column("code", 2, 25, -1, "text"),
        Column("note", 3, 25, -1, "text"),
    )
    return Table(1, "shop", "orders", columns, key=("id",), replica_identity=identity, identity_key=("id",))


def operations(identity: str, old: list[str | None], new: list[str | None]) -> list[tuple[object, object]]:
    settings = postgres_settings(message_key_columns="shop.orders:code")
    shape = TableShape(table(identity), settings)
    found = Events(settings, lambda: 0).update(shape, old, new, AT)
    return [(one.value and one.value["op"], one.key["code"]) for one in found]


@pytest.mark.parametrize("identity", ["d", "i"])
def test_old_row_without_the_message_key_deletes_no_record_of_a_null_key(identity: str) -> None:
    assert operations(identity, ["1", None, None], ["2", "a", "x"]) == [("u", "a")]


def test_full_old_row_shows_that_the_message_key_was_null() -> None:
    assert operations("f", ["1", None, "x"], ["1", "a", "x"]) == [("d", None), (None, None), ("c", "a")]
    assert operations("f", ["1", "a", "x"], ["1", "a", "y"]) == [("u", "a")]
