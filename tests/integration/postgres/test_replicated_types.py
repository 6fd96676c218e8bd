"""Every type of Postgres, from the records of a source to the tables of a sink: an audit of them has no false alarm."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from confluent_kafka import Producer

from fencepost.builtin.converter.json import JsonConverter
from fencepost.builtin.postgres.envelope import SESSION, TableShape
from fencepost.builtin.postgres.sink.task import PostgresSink
from fencepost.builtin.postgres.source.connector import PostgresSource
from fencepost.cli.connector.audit_scope import target_audit
from fencepost.embedded import EmbeddedKafka
from fencepost.kafka.admin.client import Admin
from fencepost.kafka.setting.client_settings import range_conf
from fencepost.postgres import copy_rows
from fencepost.postgres.catalog import tables
from fencepost.postgres.name import quoted
from fencepost.testing import Pipeline, eventually
from oracle.debezium_postgres import MODES, SQL
from support.postgres import Postgres

JSON = "org.apache.kafka.connect.json.JsonConverter"
TYPES = (SQL / "types.sql").read_text(encoding="utf-8")
EXTENSIONS = "CREATE EXTENSION hstore; CREATE EXTENSION ltree; CREATE SCHEMA shop"
UNFIT = r"shop\..*\.(a_point|points|hstores)"
"""Columns that no sink writes: they need PostGIS, or are arrays of pairs."""


@contextmanager
def database(server: Postgres, name: str, *statements: str) -> Iterator[psycopg.Connection[Any]]:
    server.sql(f"CREATE DATABASE {name}")
    options = " ".join(f"-c {key}={value}" for key, value in SESSION.items())
    where = {"host": "127.0.0.1", "port": server.port, "user": "postgres", "dbname": name, "options": options}
    with psycopg.connect(**where, autocommit=True) as connection:  # type: ignore[arg-type]
        for each in statements:
            connection.execute(each.encode())
        yield connection
    server.sql(f"DROP DATABASE {name} WITH (FORCE)")


def written(connection: psycopg.Connection[Any], config: PostgresSource, kafka: EmbeddedKafka) -> dict[str, int]:
    """Write the rows of the source's tables to topics, and return these with their ends."""
    producer, converter = Producer({"bootstrap.servers": kafka.bootstrap_servers}), JsonConverter({})
    admin = Admin({"bootstrap.servers": kafka.bootstrap_servers})
    ends: dict[str, int] = {}
    for table in tables(connection, lambda schema, _: schema == "shop"):
        shape = TableShape(table, config)
        after = shape.envelope_schema.field("after")
        if not table.key or after is None or table.name == "extremes":  # Connect's times cannot have them
            continue
        admin.topics.create(shape.topic, partitions=1, replication=1)
        names = ", ".join(quoted(column.name) for column in table.columns)
        for rows in copy_rows(connection, f"SELECT {names} FROM shop.{quoted(table.name)}"):
            for row in rows:
                ends[shape.topic] = ends.get(shape.topic, 0) + 1
                producer.produce(
                    shape.topic,
                    converter.from_connect_data("t", after.schema, shape.row(row)),
                    converter.from_connect_data("t", shape.key_schema, shape.key(row)),
                )
    producer.flush()
    return ends


@pytest.mark.parametrize(("mode", "is_created"), [("default", False), ("double", True)])
def test_rows_of_every_type_are_verified_in_a_table(
    sink_server: Postgres, kafka: EmbeddedKafka, mode: str, *, is_created: bool
) -> None:
    """The tables are those of the source, or those that the sink creates."""
    name = f"replicated_{mode}"
    rows = (SQL / "rows.sql").read_text(encoding="utf-8").format(0)
    with (
        database(sink_server, f"{name}_source", TYPES, rows) as source,
        database(sink_server, name, EXTENSIONS if is_created else TYPES) as target,
    ):
        config = PostgresSource({
            "database.hostname": "127.0.0.1", "database.user": "postgres", "database.dbname": f"{name}_source",
            "topic.prefix": name, "plugin.name": "pgoutput",
            **MODES[mode], "include.unknown.datatypes": "false", "column.exclude.list": UNFIT,
        })  # fmt: skip
        ends = written(source, config, kafka)
        sink = {
            "name": name, "topics": ",".join(ends), "insert.mode": "upsert", "pk.mode": "record_key",
            "auto.create": "true", "key.converter": JSON, "value.converter": JSON, "errors.tolerance": "all",
            "errors.log.enable": "true",
            "connection.url": f"jdbc:postgresql://127.0.0.1:{sink_server.port}/{name}", "connection.user": "postgres",
        }  # fmt: skip
        with Pipeline(PostgresSink, sink, kafka=kafka) as pipeline:

            def has_all() -> bool:
                return dict(target.execute("SELECT topic, next_offset FROM fencepost_offsets").fetchall()) == ends

            eventually(lambda: pipeline._life.failure or has_all(), within_s=300)
            pipeline.ensure_runs()
        conf = range_conf({"bootstrap.servers": kafka.bootstrap_servers, "isolation.level": "read_committed"}, "a").conf
        with closing(target_audit(conf, name, {**sink, "errors.tolerance": "none"}, {}, {})) as made:
            report = made.run()
        assert {each.kind.value for each in report.differences} <= {"missing in the table"}  # they are dead letters
        assert all(table.verified == table.rows for table in report.tables)
        assert sum(table.verified for table in report.tables) > 25
        assert len(report.tables) == len(ends)
