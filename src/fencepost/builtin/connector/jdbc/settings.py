"""The settings of JdbcSource, under Confluent's keys where they mean the same, and the tables or the query that they
name.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from fencepost.api import (
    HIGH,
    LOW,
    MEDIUM,
    Config,
    ConfigError,
    Secret,
    Type,
    at_least,
    non_empty,
    one_of,
    setting,
    topic_name,
)
from fencepost.builtin.connector.jdbc.database import Access, Database, FoundTable, dialect_of
from fencepost.config.check import each, parsed_by
from fencepost.config.connector_limit import file_limit
from fencepost.config.java_regex import compiled, java_regex
from fencepost.guide import guide
from fencepost.secret.redaction import has_login

BULK, IDS, TIMES, BOTH = "bulk", "incrementing", "timestamp", "timestamp+incrementing"
_PAGE = guide("how-to/jdbc-source")
_PREFIX = "connection."
_RETRIED = "errors of the database are retried until they pass"
_UNSUPPORTED = {
    "connection.attempts": _RETRIED,
    "connection.backoff.ms": _RETRIED,
    "date.calendar.system": "dates are those of the proleptic Gregorian calendar",
    "dialect.name": "the URL names the database",
    "incrementing.column.mapping": "give these tables a connector of their own",
    "query.masked": "a query is no secret; put secrets into connection.password",
    "query.retry.attempts": _RETRIED,
    "query.suffix": "put it into query",
    "quote.sql.identifiers": "names are always quoted",
    "table.monitoring.startup.polling.limit.ms": "the connector starts before its tables are listed",
    "timestamp.columns.mapping": "give these tables a connector of their own",
    "timestamp.fields.list": "choose the columns in transforms.sql",
    "timestamp.granularity": "timestamps keep the precision that Spark has, microseconds",
    "transaction.isolation.mode": "each read is one query in a transaction of its own",
}
"""Settings of Confluent's connector that are refused, and why they are not needed or what to do instead."""


def _zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, OSError) as error:
        raise ValueError("there is no such time zone") from error


def _of_sqlite(url: str) -> str | None:
    """Return the file that a URL of SQLite names; None for another database."""
    if not url.startswith("jdbc:sqlite:"):
        return None
    return url.removeprefix("jdbc:sqlite:").partition("?")[0].removeprefix("file:")


class ConnectionSettings(Config):
    """Where the database is."""

    url: str = setting(
        "connection.url", check=non_empty(), importance=HIGH,
        doc="The JDBC URL, without a password. Its driver's jar belongs in `spark.jars`, or its coordinates in "
        f"`spark.jars.packages`, of the worker's file: {_PAGE}.",
    )  # fmt: skip
    user: str | None = setting("connection.user", default=None, importance=HIGH, doc="The user.")
    password: Secret | None = setting("connection.password", default=None, importance=HIGH, doc="The user's password.")
    driver: str | None = setting(
        "connection.driver", default=None, importance=LOW,
        doc="The class of the driver. It is known for Postgres, MariaDB, MySQL and SQLite. `connection.NAME` with any "
        "other name is a property of the driver.",
    )  # fmt: skip
    zone: str = setting(
        "db.timezone", default="UTC", check=parsed_by(_zone, "a time zone, such as Europe/Berlin"),
        doc="The time zone that timestamps without a zone are in.",
    )  # fmt: skip
    fetched_rows: int = setting(
        "batch.max.rows", type=Type.INT, default=1000, check=at_least(1), importance=LOW,
        doc="How many rows are fetched from the database at a time. A transaction has more: `split.rows.max`.",
    )  # fmt: skip

    def faults(self) -> list[str]:
        """Return the faults of these settings together."""
        found = [
            f"{key} is not supported: {why}; remove it" for key, why in _UNSUPPORTED.items() if key in self.originals
        ]
        key = ConnectionSettings.key_of("url")
        if not self.url.startswith("jdbc:"):
            found.append(f"Invalid value for configuration {key}: it must begin with jdbc:, as in jdbc:postgresql://…")
        elif has_login(self.url):
            found.append(
                f"Invalid value for configuration {key}: it has a password, which belongs in connection.password"
            )
        elif dialect_of(self.url, self.driver) is None:
            found.append(f"connection.driver is missing: the driver of {self.url} is not known; name its class")
        if (file := _of_sqlite(self.url)) is not None:
            fault = "it must be a path" if file.startswith(":") or not file else file_limit().fault(file)
            found += [] if fault is None else [f"Invalid value {self.url} for configuration {key}: {fault}"]
        return found

    def access(self) -> Access:
        """Return how to connect: with the properties of the dialect, those that are given, user and password."""
        dialect = dialect_of(self.url, self.driver)
        assert dialect is not None  # it was checked
        own = ConnectionSettings.settings()
        given = {key: str(value) for key, value in self.originals.items() if key not in own}
        properties = {**dialect.properties, **{k[len(_PREFIX) :]: v for k, v in given.items() if k.startswith(_PREFIX)}}
        if self.user is not None:
            properties["user"] = self.user
        if self.password is not None:
            properties["password"] = self.password.reveal()
        return Access(self.url, dialect, properties)


class TableSettings(Config):
    """Which tables are read."""

    include: list[str] = setting(
        "table.whitelist", default=[], importance=MEDIUM,
        doc="The tables to read, by name: `orders`, `public.orders`. Unset: all.",
    )  # fmt: skip
    exclude: list[str] = setting("table.blacklist", default=[], doc="The tables to leave out, by name.")
    include_patterns: list[str] = setting(
        "table.include.list", default=[], check=each(java_regex(is_empty_allowed=False)),
        doc="The same as patterns of Java, which match the name with its schema: `public\\.order.*`.",
    )  # fmt: skip
    exclude_patterns: list[str] = setting(
        "table.exclude.list", default=[], check=each(java_regex(is_empty_allowed=False)),
        doc="The tables to leave out, as patterns.",
    )  # fmt: skip
    catalog: str | None = setting(
        "catalog.pattern", default=None, doc="The catalog whose tables are read. Unset: that of the URL."
    )
    schema: str | None = setting(
        "schema.pattern", default=None, doc="The schemas whose tables are read, as a pattern of SQL (`%`). Unset: all."
    )
    types: list[str] = setting(
        "table.types", default=["TABLE"], doc="Which kinds: `TABLE`, `VIEW` and others that the driver knows."
    )
    listed_ms: int = setting(
        "table.poll.interval.ms", type=Type.INT, default=60_000, check=at_least(0), importance=LOW,
        doc="How often to look for new tables.",
    )  # fmt: skip

    def faults(self) -> list[str]:
        """Return the faults of these settings together."""
        given = TableSettings.lists(self)
        return [f"{given[1]} excludes {given[0]}: remove one of them"] if len(given) > 1 else []

    def lists(self) -> list[str]:
        """Return the keys of the lists that are given."""
        names = ("include", "exclude", "include_patterns", "exclude_patterns")
        return [TableSettings.key_of(name) for name in names if getattr(self, name)]


class RangeSettings(Config):
    """How new rows are found, and how many make a transaction."""

    mode: str = setting(
        "mode", check=one_of(BULK, IDS, TIMES, BOTH), importance=HIGH,
        doc="How new rows are found. `bulk`: each time all rows are read. `incrementing`: rows with larger ids. "
        "`timestamp`: rows that are new or changed, by a timestamp. `timestamp+incrementing`: the same, with an id "
        "that orders rows of the same timestamp.",
    )  # fmt: skip
    id_column: str = setting(
        "incrementing.column.name", default="",
        doc="The column of unique, ever larger whole numbers. Unset: the one that the database fills itself.",
    )  # fmt: skip
    time_columns: list[str] = setting(
        "timestamp.column.name", default=[],
        doc="The timestamp that each change of a row sets to its time. Of several columns the first that is not null.",
    )  # fmt: skip
    initial_ms: int | None = setting(
        "timestamp.initial", type=Type.LONG, default=None, check=at_least(-1), importance=LOW,
        doc="Only rows after this time are read, in milliseconds since 1970; -1: after the start. Unset: all.",
    )  # fmt: skip
    time_delay_ms: int | None = setting(
        "timestamp.delay.interval.ms", type=Type.INT, default=None, check=at_least(0),
        doc="How long after its timestamp a row is read, at the earliest: longer than any transaction lasts that "
        f"writes. Unset: 0 on Postgres, which shows its transactions, so that they are waited for; else 10000. "
        f"{_PAGE}.",
    )  # fmt: skip
    id_delay_ms: int | None = setting(
        "incrementing.delay.interval.ms", type=Type.INT, default=None, check=at_least(0),
        doc="How long a gap in the ids is waited for before rows after it are read. Unset: 0 on Postgres, where the "
        "transactions that may fill it are waited for, and on SQLite, which has one writer; else 10000.",
    )  # fmt: skip
    checks_null: bool = setting(
        "validate.non.null", default=True,
        doc="Whether columns that may be null are refused as id or timestamp. Rows with a null there are never read.",
    )  # fmt: skip
    rows_max: int = setting(
        "split.rows.max", type=Type.INT, default=100_000, check=at_least(1),
        doc="About how many rows a transaction has, and so a Spark job. Those of one timestamp stay together, if no id "
        "orders them. A load of `bulk` is always one transaction.",
    )  # fmt: skip

    def faults(self) -> list[str]:
        """Return the faults of these settings together."""
        time = RangeSettings.key_of("time_columns")
        has_times = TIMES in self.mode.lower()
        found = [] if self.time_columns or not has_times else [f"{time} is missing: mode={self.mode} needs it"]
        if self.initial_ms is not None and not has_times:
            key = RangeSettings.key_of("initial_ms")
            found.append(f"{key} has no meaning with mode={self.mode}: remove it")
        return found


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
