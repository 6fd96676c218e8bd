"""Debezium's plug-ins, in the versions that can be fetched. That for Postgres is the bench's."""

from pathlib import Path

from bench.postgres import DEBEZIUM, debezium

from support.maven_plugin import plugin

_OLDER = "3.5.0.Final"  # the newest whose artifacts could be fetched
JSON = "org.apache.kafka.connect.json.JsonConverter"
"""The converter of both its sources and its sink, in the tests."""


def put_source(database: str, plugin_path: Path) -> None:
    """Put the sources for `postgres`, `mysql` or `mariadb` into a directory of `plugin.path`."""
    if database == "postgres":
        debezium(plugin_path)
    else:
        revision = DEBEZIUM if database == "mysql" else _OLDER
        plugin("io.debezium", (f"debezium-connector-{database}",), revision, plugin_path)


def put_jdbc_sink(plugin_path: Path) -> None:
    """Put the JDBC sink into a directory of `plugin.path`.

    With a Jackson of its own, Hibernate looks for modules and finds Kafka Connect's, which do not fit that one.
    """
    directory = plugin("io.debezium", ("debezium-connector-jdbc",), _OLDER, plugin_path)
    for name in ("annotations", "core", "databind"):
        next(directory.glob(f"jackson-{name}-*.jar")).unlink()
