"""Publications of a real server."""

import psycopg
import pytest
from slot_stage import Stage

from fencepost.postgres import tables
from fencepost.postgres.publication import (
    PublishedTable,
    add_tables,
    create_publication,
    publication,
    set_tables,
    without_identity,
)


def test_publication_is_made_of_tables_and_says_which_it_lacks(stage: Stage) -> None:
    stage.sql('CREATE TABLE "A b" (id int PRIMARY KEY)', "CREATE TABLE c (id int PRIMARY KEY)")
    first, second = tables(stage.connection)
    assert publication(stage.connection, "p") is None
    create_publication(stage.connection, "p", [first])
    made = publication(stage.connection, "p")

    assert made is not None
    assert (made.is_all_tables, made.via_root, made.operations) == (
        False,
        True,
        {"insert", "update", "delete", "truncate"},
    )
    assert made.tables == (PublishedTable("public", "A b", None, None),)
    assert made.lacking([first, second]) == (second,)
    add_tables(stage.connection, "p", [second])
    assert _names(stage) == ["A b", "c"]
    set_tables(stage.connection, "p", [second])
    assert _names(stage) == ["c"]


def test_publication_of_all_tables_or_none_is_made(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int PRIMARY KEY)")
    create_publication(stage.connection, "every", None)
    create_publication(stage.connection, "empty", [])
    every, empty = publication(stage.connection, "every"), publication(stage.connection, "empty")

    assert every is not None
    assert empty is not None
    assert (every.is_all_tables, every.lacking(tables(stage.connection))) == (True, ())
    assert (empty.is_all_tables, empty.tables) == (False, ())


def test_row_filters_and_column_lists_are_reported(stage: Stage) -> None:
    stage.sql(
        "CREATE TABLE a (id int PRIMARY KEY, v text, secret text)",
        "CREATE PUBLICATION p FOR TABLE a (id, v) WHERE (id > 5) WITH (publish = 'insert, update')",
    )
    found = publication(stage.connection, "p")

    assert found is not None
    assert found.tables == (PublishedTable("public", "a", ("id", "v"), "(id > 5)"),)
    assert found.operations == {"insert", "update"}


def test_tables_without_replica_identity_are_named_with_the_statement(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (id int)", "CREATE TABLE b (id int PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    found = tables(stage.connection)
    (warning,) = without_identity(found)
    create_publication(stage.connection, "p", found)

    with pytest.raises(psycopg.Error, match="does not have a replica identity"):
        stage.sql("UPDATE a SET id = 2")
    stage.sql(warning.partition("or: ")[2], "UPDATE a SET id = 2")
    assert without_identity(tables(stage.connection)) == []


def _names(stage: Stage) -> list[str]:
    found = publication(stage.connection, "p")
    assert found is not None
    return [each.name for each in found.tables]
