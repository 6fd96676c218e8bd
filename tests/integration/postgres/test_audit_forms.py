"""Hashes of rows that Postgres computes, and those that an audit makes of what topics have: of every type and mode."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.converter.json_decoding import decode
from fencepost.builtin.postgres.audit.snapshot import DatabaseSnapshot
from fencepost.builtin.postgres.audit.source import SourceSide
from fencepost.builtin.postgres.audit.table import ComparedTable, Known, key_hash
from fencepost.builtin.postgres.envelope import TableShape
from fencepost.builtin.postgres.source.connector import PostgresSource
from fencepost.postgres import copy_rows
from fencepost.postgres.catalog import table
from fencepost.postgres.name import quoted
from oracle.debezium_postgres import MODES, SQL
from support.postgres import Postgres

NEVER = {
    "a_composite", "a_point", "an_hstore", "hstores", "a_tsquery", "tags",
}  # fmt: skip
"""Columns of types that the audit says it does not compare."""
OF_MODE = {
    "a_bytea", "byteas", "an_interval", "an_interval0", "an_interval_day", "a_date", "a_time", "a_time0", "a_time3",
    "a_time6", "dates", "times", "times3", "raw",
}  # fmt: skip
"""Columns that it does not compare in the modes that write them as text."""


class Untouched:
    """Topics that an audit of a source does not ask for its tables."""

    def ids(self, topics: Any) -> Any:
        raise AssertionError

    last = ids


@pytest.fixture(scope="module")
def database(sink_server: Postgres) -> Iterator[str]:
    sink_server.sql("CREATE DATABASE forms")
    where = {"host": "127.0.0.1", "port": sink_server.port, "user": "postgres", "dbname": "forms"}
    with psycopg.connect(**where, autocommit=True) as connection:  # type: ignore[arg-type]
        for name in ("types", "rows"):
            text = (SQL / f"{name}.sql").read_text(encoding="utf-8")
            connection.execute((text.format(100) if name == "rows" else text).encode())
        connection.execute("CREATE PUBLICATION forms FOR ALL TABLES")
    yield "forms"
    sink_server.sql("DROP DATABASE forms")


@pytest.mark.parametrize("is_bare", [False, True], ids=["schemas", "bare"])
@pytest.mark.parametrize("mode", MODES)
def test_hashes_of_both_ends_are_the_same_for_every_type(
    sink_server: Postgres, database: str, mode: str, is_bare: bool
) -> None:
    config = PostgresSource({
        "database.hostname": "127.0.0.1", "database.port": str(sink_server.port), "database.user": "postgres",
        "database.dbname": database, "topic.prefix": "p", "plugin.name": "pgoutput",
        "slot.name": "forms", "publication.name": "forms", **MODES[mode],
    })  # fmt: skip
    side = SourceSide(config, partial(decode, is_null_replaced=False) if is_bare else None)
    snapshot = DatabaseSnapshot(side.database)
    try:
        compared = {found.name: found for found in side.tables(snapshot, Untouched())}
        for found in compared.values():
            if found.key and (mode, found.name) != ("double", "shop.extremes"):  # Connect's times cannot have them
                _compare(snapshot, found, config, JsonConverter({"schemas.enable": str(not is_bare)}))
    finally:
        snapshot.close()
    lacking = {name for found in compared.values() for name in found.uncompared}
    lacking -= {"name", "secret", "email", "bio", "pin"}  # masked, cut or hashed
    allowed = NEVER | OF_MODE if mode in ("isostring", "double", "string", "nanoseconds") else NEVER
    assert lacking <= allowed or config.include_unknown_datatypes
    assert len(compared) > 4


def _compare(snapshot: DatabaseSnapshot, found: ComparedTable, config: PostgresSource, converter: Any) -> None:
    connection = snapshot.connection
    now = table(connection, found.stored[0].oid)
    assert now is not None
    shape = TableShape(now, config)
    names = ", ".join(quoted(column.name) for column in now.columns)
    written: dict[str, tuple[Any, dict[str, Any]]] = {}
    for rows in copy_rows(connection, f"SELECT {names} FROM {found.stored[0].sql}"):
        for row in rows:
            key = _through(converter, shape.key_schema, shape.key(row))
            after = shape.envelope_schema.field("after")
            assert after is not None
            value = _through(converter, after.schema, shape.row(row))
            written[key_hash(found.key_texts(key))] = key, value
    listed = {group: (count, total) for group, count, total in snapshot.sums(found)}
    groups = {key[:3] for key in written}
    assert set(listed) == groups
    for key, *texts in snapshot.rows(found, groups) if groups else ():
        named, value = written.pop(key)
        hashed = found.hashed(found.key_texts(named), value)
        assert hashed == (found.digests(texts)[0], Known.ALL), (
            found.name,
            named,
            found.differing(texts, value, snapshot.cast),
        )
    assert not written


def _through(converter: Any, schema: Any, value: Any) -> Any:
    return converter.to_connect_data("t", converter.from_connect_data("t", schema, value))[1]
