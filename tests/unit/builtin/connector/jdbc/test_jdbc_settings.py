"""Settings of JdbcSource, and what becomes of columns."""

import pytest

from fencepost.api import ConfigError, ConnectError
from fencepost.builtin.connector.jdbc.database import time_text
from fencepost.builtin.connector.jdbc.settings import Relations
from fencepost.builtin.connector.jdbc.source import JdbcSource, expressions, stored_types
from fencepost.config.connector_limit import FileLimit, file_limit, use_file_limit

GIVEN = {"connection.url": "jdbc:postgresql://db/shop", "topic.prefix": "shop-", "mode": "incrementing"}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"mode": "sometimes"}, "mode"),
        ({"mode": "timestamp"}, "timestamp.column.name is missing"),
        ({"connection.url": "postgresql://db/shop"}, "connection.url: it must begin with jdbc:"),
        ({"connection.url": "jdbc:postgresql://db/shop?user=u&password=s3cret"}, "belongs in connection.password"),
        ({"connection.url": "jdbc:mysql://u:s3cret@db/shop"}, "belongs in connection.password"),
        ({"connection.url": "jdbc:unknown://db/shop"}, "connection.driver is missing"),
        ({"connection.url": "jdbc:sqlite::memory:"}, "connection.url: it must be a path"),
        ({"connection.attempts": "3"}, "connection.attempts is not supported"),
        ({"query.suffix": "LIMIT 5"}, "query.suffix is not supported: put it into query"),
        ({"table.whitelist": "a", "table.blacklist": "b"}, "table.blacklist excludes table.whitelist"),
        ({"table.include.list": "(a"}, "table.include.list"),
        ({"query": "SELECT 1", "table.whitelist": "a"}, "query excludes table.whitelist"),
        ({"query": "SELECT 1", "topic.prefix": ""}, "topic.prefix must not be empty"),
        ({"timestamp.initial": "0"}, "timestamp.initial has no meaning"),
        ({"db.timezone": "Mars/Base"}, "db.timezone"),
        ({"numeric.mapping": "all"}, "numeric.mapping"),
    ],
)
def test_jdbc_source_names_a_wrong_setting(wrong: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        JdbcSource(GIVEN | wrong)
    assert text in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_password_goes_to_the_driver_and_into_no_text() -> None:
    source = JdbcSource(GIVEN | {"connection.user": "me", "connection.password": "s3cret", "connection.ssl": "true"})
    options = source.access().options()
    assert (options["user"], options["password"], options["ssl"]) == ("me", "s3cret", "true")
    assert options["driver"] == "org.postgresql.Driver"
    assert "s3cret" not in repr(source.access())


def test_spark_recognizes_mariadb_by_its_url() -> None:
    for given, expected in (("shop", "shop?permitMysqlScheme"), ("shop?a=b", "shop?a=b&permitMysqlScheme")):
        options = JdbcSource(GIVEN | {"connection.url": f"jdbc:mariadb://db/{given}"}).access().options()
        assert options["url"] == f"jdbc:mysql://db/{expected}"


def test_sqlite_file_outside_of_the_allowed_paths_is_refused() -> None:
    before = file_limit()
    use_file_limit(FileLimit(allowed=("/data",)))
    try:
        JdbcSource(GIVEN | {"connection.url": "jdbc:sqlite:/data/shop.db?cache=shared"})
        for path in ("/etc/shop.db", "file:/etc/shop.db?mode=ro", "/data/../etc/shop.db"):
            with pytest.raises(ConfigError, match=r"connector\.file\.allowed\.paths"):
                JdbcSource(GIVEN | {"connection.url": f"jdbc:sqlite:{path}"})
    finally:
        use_file_limit(before)


TABLES = [("shop", "public", "orders"), ("shop", "public", "lines"), ("shop", "old", "orders")]


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ({}, ["public.orders", "public.lines", "old.orders"]),
        ({"table.whitelist": "orders"}, ["public.orders", "old.orders"]),
        ({"table.whitelist": "public.orders,shop.public.lines"}, ["public.orders", "public.lines"]),
        ({"table.blacklist": "lines"}, ["public.orders", "old.orders"]),
        ({"table.include.list": r"public\..*"}, ["public.orders", "public.lines"]),
        ({"table.exclude.list": r".*\.orders"}, ["public.lines"]),
    ],
)
def test_lists_choose_tables(lists: dict[str, str], expected: list[str]) -> None:
    from typing import Any, cast

    from fencepost.builtin.connector.jdbc.database import FoundTable

    class Known:
        def tables(self, *_: object) -> list[FoundTable]:
            return [FoundTable(*names) for names in TABLES]

        def quoted(self, name: str) -> str:
            return f'"{name}"'

    found = Relations(JdbcSource(GIVEN | lists), None, "shop-").all(cast(Any, Known()))
    assert [each.name for each in found] == expected
    assert all(each.topic == f"shop-{each.name.partition('.')[2]}" for each in found)


@pytest.mark.parametrize(
    ("partition", "offset", "fault"),
    [
        ({"table": "a"}, {"incrementing": 5}, None),
        ({"table": "a"}, None, None),
        ({"query": "query"}, {"incrementing": 5}, None),
        ({"file": "a"}, {"incrementing": 5}, "'table' or 'query'"),
        ({"table": "a"}, {"incrementing": "5"}, "whole number"),
        ({"table": "a"}, {"timestamp": "2026-11-29 19:00:00"}, "'timestamp' has no meaning"),
    ],
)
def test_altered_offset_must_be_a_place(
    partition: dict[str, object], offset: dict[str, object] | None, fault: str | None
) -> None:
    source, given = JdbcSource(GIVEN), {tuple(sorted(partition.items())): offset}
    if fault is None:
        assert source.alter_offsets(given)
    else:
        with pytest.raises(ConnectError, match=fault):
            source.alter_offsets(given)


@pytest.mark.parametrize(
    ("mapping", "kind", "expected"),
    [
        ("none", "decimal(9,0)", "`n`"),
        ("precision_only", "decimal(2,0)", "CAST(`n` AS TINYINT) AS `n`"),
        ("precision_only", "decimal(9,0)", "CAST(`n` AS INT) AS `n`"),
        ("precision_only", "decimal(19,0)", "`n`"),
        ("precision_only", "decimal(9,2)", "`n`"),
        ("best_fit", "decimal(18,0)", "CAST(`n` AS BIGINT) AS `n`"),
        ("best_fit", "decimal(9,2)", "CAST(`n` AS DOUBLE) AS `n`"),
        ("best_fit", "decimal(38,2)", "`n`"),
        ("best_fit_eager_double", "decimal(38,2)", "CAST(`n` AS DOUBLE) AS `n`"),
        ("best_fit_eager_double", "int", "`n`"),
    ],
)
def test_decimals_become_numbers_as_numeric_mapping_says(mapping: str, kind: str, expected: str) -> None:
    assert expressions([("n", kind)], mapping, "UTC") == [expected]


def test_times_without_a_zone_are_in_that_of_the_database() -> None:
    fields = [("a", "timestamp"), ("b", "timestamp"), ("c", "timestamp_ntz")]
    zoned, local, other = expressions(fields, "none", "Europe/Berlin", ["b", "c"])
    assert (zoned, local) == ("`a`", "to_utc_timestamp(`b`, 'Europe/Berlin') AS `b`")
    assert other.endswith("extract(SECOND FROM `c`), 'Europe/Berlin') AS `c`")


def test_columns_of_sqlite_have_the_types_of_stored_values() -> None:
    assert stored_types([("a`b", "int"), ("t", "timestamp_ntz"), ("x", "string")]) == "`a``b` BIGINT, `t` STRING"
    assert stored_types([("x", "string")]) == ""


@pytest.mark.parametrize(
    ("java", "sql"),
    [
        ("2026-11-29T19:00", "2026-11-29 19:00:00"),
        ("2026-11-29T19:00:01.5", "2026-11-29 19:00:01.5"),
        ("2026-11-29T19:00:01.000001Z", "2026-11-29 19:00:01.000001Z"),
        ("2026-11-29T19:00+01:00", "2026-11-29 19:00:00+01:00"),
    ],
)
def test_java_times_are_written_as_sql_has_them(java: str, sql: str) -> None:
    assert time_text(java) == sql
