"""What is read: a query, or the tables that the settings choose."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from fencepost.api import ConfigError, topic_name
from fencepost.builtin.connector.jdbc.database import Database, FoundTable
from fencepost.builtin.connector.jdbc.settings import TableSettings
from fencepost.config.java_regex import compiled

TABLE, QUERY = "table", "query"
"""The keys of source partitions."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Relation:
    """A table or a query: its source partition, its SQL, and its topic."""

    partition: Mapping[str, str]
    sql: str
    topic: str

    @property
    def name(self) -> str:
        return self.partition.get(TABLE, QUERY)


class Relations:
    """Lists the tables now and then."""

    def __init__(self, settings: TableSettings, query: str | None, prefix: str) -> None:
        self._settings = settings
        self._query = query
        self._prefix = prefix
        self._listed: list[Relation] = []
        self._due_s = 0.0

    def forget(self) -> None:
        """List the tables again when they are asked for: one may be gone."""
        self._due_s = 0.0

    def all(self, database: Database) -> list[Relation]:
        """Return the query, or the tables. Raises ConfigError for a table whose name no topic can have."""
        if self._query:
            return [Relation({QUERY: QUERY}, f"({self._query.strip().rstrip(';')}) q", self._prefix)]
        now_s, own = time.monotonic(), self._settings
        if now_s >= self._due_s:
            tables = database.tables(own.catalog, own.schema, own.types)
            self._listed = [self._relation(database, each) for each in tables if self._is_chosen(each)]
            self._due_s = now_s + own.listed_ms / 1000
            if not self._listed:
                log.warning("none of %d tables is to be read; they are listed again", len(tables))
        return self._listed

    def _is_chosen(self, table: FoundTable) -> bool:
        own, names = self._settings, {table.name, table.full_name, ".".join(filter(None, table))}
        if own.include or own.exclude:
            return not names.isdisjoint(own.include) if own.include else names.isdisjoint(own.exclude)
        patterns = own.include_patterns or own.exclude_patterns
        has_match = any(compiled(pattern).fullmatch(table.full_name) for pattern in patterns)
        return has_match == bool(own.include_patterns) or not patterns

    def _relation(self, database: Database, table: FoundTable) -> Relation:
        topic = f"{self._prefix}{table.name}"
        if (fault := topic_name()(topic)) is not None:
            raise ConfigError(f"Table {table.full_name} cannot have topic {topic}: {fault}; add it to table.blacklist")
        sql = ".".join(database.quoted(each) for each in (table.schema or table.catalog, table.name) if each)
        return Relation({TABLE: table.full_name}, sql, topic)
