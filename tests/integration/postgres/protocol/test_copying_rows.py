"""COPY out of and into a real server."""

import psycopg
import pytest
from slot_stage import Stage

from fencepost.postgres import ConnectionLostError, copy_in, copy_rows, is_retriable

VALUES = ["", "\\N", "\\", "a\tb\nc\rd\be\ff\vg", "\\t", "ä€😀", None, "'\"", "\x01", "\\.", "x" * 300_000]


def test_rows_come_out_as_they_went_in(stage: Stage) -> None:
    stage.sql('CREATE TABLE "T" (n int, "the value" text)')
    rows = [[str(n), value] for n, value in enumerate(VALUES)]
    count = copy_in(stage.connection, '"T"', ["n", "the value"], rows)
    found = [row for batch in copy_rows(stage.connection, 'SELECT * FROM "T" ORDER BY n') for row in batch]

    assert count == len(VALUES)
    assert found == rows
    assert stage.sql('SELECT "the value" FROM "T" ORDER BY n') == [(value,) for value in VALUES]


def test_values_have_one_text_on_every_server(stage: Stage) -> None:
    stage.sql(
        f"ALTER DATABASE {stage.name} SET DateStyle = 'German'",
        f"ALTER DATABASE {stage.name} SET TimeZone = 'Asia/Tokyo'",
    )
    connection = stage.connect()
    query = r"SELECT timestamptz '2026-01-02 03:04:05.5+00', interval '1 day 2 hours', '\x0aff'::bytea, 0.1::float8 * 3"
    (batch,) = copy_rows(connection, query)

    assert batch == [["2026-01-02 03:04:05.5+00", "1 day 02:00:00", "\\x0aff", "0.30000000000000004"]]


def test_many_rows_come_in_batches(stage: Stage) -> None:
    batches = list(copy_rows(stage.connection, "SELECT n, repeat('x', 500) FROM generate_series(1, 5000) n"))

    assert len(batches) > 2
    assert [row[0] for batch in batches for row in batch] == [str(n) for n in range(1, 5001)]
    assert list(copy_rows(stage.connection, "SELECT 1 WHERE false")) == []


def test_connection_is_usable_after_a_copy_that_was_not_read_to_its_end(stage: Stage) -> None:
    rows = copy_rows(stage.connection, "SELECT repeat('x', 1000) FROM generate_series(1, 3000000)")
    assert next(rows)
    rows.close()  # type: ignore[attr-defined]

    assert stage.sql("SELECT 1") == [(1,)]


def test_connection_is_usable_after_a_query_that_failed(stage: Stage) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        list(copy_rows(stage.connection, "SELECT 1 / (n - 3000) FROM generate_series(1, 5000) n"))
    with pytest.raises(psycopg.errors.UndefinedTable):
        list(copy_rows(stage.connection, "SELECT * FROM missing"))

    assert stage.sql("SELECT 1") == [(1,)]


def test_bad_row_is_refused_with_its_place_and_nothing_is_written(stage: Stage) -> None:
    stage.sql("CREATE TABLE a (n int)")

    with pytest.raises(psycopg.errors.InvalidTextRepresentation) as error:
        copy_in(stage.connection, "a", ["n"], [["1"], ["two"]])
    assert "line 2, column n" in (error.value.diag.context or "")
    assert stage.sql("SELECT count(*) FROM a") == [(0,)]


def test_server_that_hangs_in_a_copy_is_taken_for_dead(stage: Stage) -> None:
    rows = copy_rows(stage.connection, "SELECT pg_sleep(60)", silent_s=1)

    with pytest.raises(ConnectionLostError, match="silent for 1 s") as error:
        next(rows)
    assert is_retriable(error.value)
    assert stage.connection.closed


def test_copy_of_a_killed_server_fails_in_a_way_worth_a_retry(stage: Stage) -> None:
    rows = copy_rows(stage.connection, "SELECT repeat('x', 1000) FROM generate_series(1, 3000000)")
    next(rows)
    stage.server.stop()
    stage.server.start()

    with pytest.raises((psycopg.OperationalError, ConnectionLostError)) as error:
        list(rows)
    assert is_retriable(error.value)
