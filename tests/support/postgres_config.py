"""Configs of Postgres sources, for tests."""

from fencepost.builtin.postgres.envelope import PostgresSettings

MINIMAL = {
    "database.hostname": "db",
    "database.user": "fence",
    "database.dbname": "shop",
    "topic.prefix": "pre",
    "plugin.name": "pgoutput",
}
"""The keys without a default, and the one whose default is refused."""


def postgres_settings(**more: str) -> PostgresSettings:
    """Return settings; underscores in names of `more` stand for dots."""
    return PostgresSettings(MINIMAL | {key.replace("_", "."): value for key, value in more.items()})
