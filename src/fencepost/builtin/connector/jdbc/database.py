"""Databases: what differs between them as far as it must be known here, and a connection through the JVM of Spark.

Planning asks over the connection; Spark reads with the same properties.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from fencepost.api import ConfigError, RetriableError
from fencepost.api.dataframe import Session

_NONE: Mapping[str, str] = MappingProxyType({})
_TRANSACTIONS = (
    "SELECT l.virtualtransaction FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.locktype = "
    "'virtualxid' AND l.mode = 'ExclusiveLock' AND l.granted AND a.datname = current_database() AND a.usesysid IS NOT "
    "NULL AND a.pid <> pg_backend_pid() UNION ALL SELECT 'prepared ' || transaction::text FROM pg_prepared_xacts WHERE "
    "database = current_database()"
)
"""Each transaction holds a lock on its own virtual id, which everybody may see; prepared ones are listed elsewhere."""
_SHOWS_THEM = (
    "SELECT count(*) FROM (SELECT version() AS v) v WHERE v LIKE 'PostgreSQL %' AND v NOT LIKE '%Redshift%' AND v NOT "
    "LIKE '%-YB-%' AND NOT pg_is_in_recovery()"
)
"""Other databases that speak Postgres' protocol have other transactions; a standby does not see the primary's."""


@dataclass(frozen=True)
class Dialect:
    """One kind of database.

    Attributes:
        driver: The class of its driver.
        properties: Properties of the driver, unless the config sets them.
        has_limit: It has LIMIT and OFFSET.
        now: A query for the seconds since 1970; None: the worker's clock is used.
        transactions: A query for the open transactions, which it shows if `shows_transactions` returns 1.
        zoned: The types of timestamps that are moments, whatever the time zone of the session, which is UTC.
        is_sqlite: It has one writer at a time, whole numbers of 64 bits, and times that are text.
        spark_scheme: The scheme by which Spark recognizes what SQL it needs, and a parameter with which the driver
            accepts it.
        shows_zone: The text of a moment has its time zone.
        text_of_time: The expression of a timestamp's text, where Java would move it into its own time zone.
    """

    driver: str
    properties: Mapping[str, str] = field(default_factory=lambda: _NONE)
    has_limit: bool = True
    now: str | None = None
    transactions: str | None = None
    shows_transactions: str = ""
    zoned: tuple[str, ...] = ()
    is_sqlite: bool = False
    spark_scheme: tuple[str, str] | None = None
    shows_zone: bool = False
    text_of_time: str = "{}"

    def literal(self, *, has_zone: bool) -> str:
        """Return the form of a timestamp in SQL, with `{}` for its text."""
        if self.is_sqlite:
            return "'{}'"
        return "TIMESTAMP WITH TIME ZONE '{}'" if has_zone and self.shows_zone else "TIMESTAMP '{}'"


_IN_UTC = {"connectionTimeZone": "UTC", "forceConnectionTimeZoneToSession": "true", "preserveInstants": "true"}
_MYSQL_NOW = "SELECT UNIX_TIMESTAMP(NOW(6))"
_DIALECTS = {
    "postgresql": Dialect(
        "org.postgresql.Driver",
        {"socketTimeout": "300", "tcpKeepAlive": "true"},
        now="SELECT EXTRACT(EPOCH FROM clock_timestamp())",
        transactions=_TRANSACTIONS,
        shows_transactions=_SHOWS_THEM,
        zoned=("timestamptz",),
        shows_zone=True,
    ),
    "mariadb": Dialect(
        "org.mariadb.jdbc.Driver",
        {"socketTimeout": "300000", **_IN_UTC},
        now=_MYSQL_NOW,
        zoned=("TIMESTAMP",),
        text_of_time="CAST({} AS CHAR)",
        spark_scheme=("mysql", "permitMysqlScheme"),
    ),
    "mysql": Dialect(
        "com.mysql.cj.jdbc.Driver",
        {"socketTimeout": "300000", **_IN_UTC},
        now=_MYSQL_NOW,
        zoned=("TIMESTAMP",),
        text_of_time="CAST({} AS CHAR)",
    ),
    "sqlite": Dialect("org.sqlite.JDBC", is_sqlite=True),
}


def dialect_of(url: str, driver: str | None = None) -> Dialect | None:
    """Return the dialect of a URL (`jdbc:NAME:…`). Any other has SQL as the standard says, if a driver is given."""
    known = _DIALECTS.get(url.removeprefix("jdbc:").partition(":")[0].lower())
    if driver is None:
        return known
    return Dialect(driver, has_limit=False, shows_zone=True) if known is None else replace(known, driver=driver)


_TIMESTAMP, _TIMESTAMP_WITH_ZONE = 93, 2014  # java.sql.Types
_NULLABLE = 1  # java.sql.ResultSetMetaData
_TIME = re.compile(r"(\S+)T(\d\d:\d\d)(:\d\d(?:\.\d+)?)?(\S*)")


class DatabaseError(RetriableError):
    """The database cannot be reached, or refuses something; it is asked again."""


@dataclass(frozen=True)
class Access:
    """How to connect. `properties` are the driver's, the password among them."""

    url: str
    dialect: Dialect
    properties: Mapping[str, str] = field(repr=False)

    def options(self) -> dict[str, str]:
        """Return the options of Spark's JDBC source, which passes those that it does not know on to the driver."""
        url = self.url
        if self.dialect.spark_scheme is not None:
            scheme, parameter = self.dialect.spark_scheme
            url = re.sub(r"^jdbc:\w+:", f"jdbc:{scheme}:", url) + ("&" if "?" in url else "?") + parameter
        return {**self.properties, "url": url, "driver": self.dialect.driver, "preferTimestampNTZ": "true"}


class Column(NamedTuple):
    """A column of a relation. `has_zone`: its values are moments, whatever the time zone."""

    name: str
    is_timestamp: bool
    has_zone: bool
    may_be_null: bool
    is_automatic: bool


class FoundTable(NamedTuple):
    """A table by its names; those that the database does not have are empty."""

    catalog: str
    schema: str
    name: str

    @property
    def full_name(self) -> str:
        """Return the name with its schema, or with its catalog in databases that have only these."""
        return ".".join(filter(None, (self.schema or self.catalog, self.name)))


class Database:
    """One connection. For the thread that made it; a context manager that closes it."""

    def __init__(self, session: Session, access: Access) -> None:
        """Connect. Raises ConfigError if the driver is missing, and DatabaseError."""
        self._jvm = session._jvm
        self._gateway = session._sc._gateway
        self.dialect = access.dialect
        registry = self._jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry
        try:
            registry.register(access.dialect.driver)  # by Spark's class loader, which knows spark.jars
        except Exception as error:
            raise ConfigError(
                f"connection.url={access.url} needs the driver {access.dialect.driver}, which Spark does not have: "
                "name its jar in the worker's file (spark.jars, or spark.jars.packages with its coordinates) and "
                "restart the worker"
            ) from error
        with _asking(f"connection.url={access.url}: no connection"):
            properties = self._jvm.java.util.Properties()
            for name, value in access.properties.items():
                properties.setProperty(name, value)
            self._connection = registry.get(access.dialect.driver).connect(access.url, properties)
        if self._connection is None:
            raise ConfigError(
                f"connection.url={access.url} is no URL of the driver {access.dialect.driver}: correct it"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # it is lost, and nothing was written
            self._connection.close()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query: timestamps as text with a space for the T, others as the driver's text."""
        with _asking(f"the database refused {query}"), self._result(query) as result:
            facts, found = result.getMetaData(), []
            kinds = [self._kind(facts, n) for n in range(1, facts.getColumnCount() + 1)]
            while result.next():
                found.append(tuple(self._value(result, n, kind) for n, kind in enumerate(kinds, 1)))
            return found

    def columns(self, relation: str) -> list[Column]:
        """Return the columns of a table or a query."""
        query = f"SELECT * FROM {relation} WHERE 1 = 0"
        with _asking(f"the database refused {query}"), self._result(query) as result:
            facts = result.getMetaData()
            return [self._column(facts, n) for n in range(1, facts.getColumnCount() + 1)]

    def tables(self, catalog: str | None, schema: str | None, types: Sequence[str]) -> list[FoundTable]:
        """Return the tables of these types; without a catalog those of the connection's."""
        with _asking("the tables of the database cannot be listed"):
            names = self._gateway.new_array(self._jvm.java.lang.String, len(types))
            for n, name in enumerate(types):
                names[n] = name
            place = catalog or self._connection.getCatalog()
            result, found = self._connection.getMetaData().getTables(place, schema, "%", names), []
            while result.next():
                found.append(FoundTable(*(str(result.getString(n) or "") for n in (1, 2, 3))))
            return sorted(found)

    def quoted(self, name: str) -> str:
        """Return a name as the database's SQL has it."""
        with _asking("the database does not say how it quotes names"):
            mark = str(self._connection.getMetaData().getIdentifierQuoteString()).strip()
        return f"{mark}{name.replace(mark, mark * 2)}{mark}" if mark else name

    def now_s(self, otherwise_s: float) -> Decimal:
        """Return the database's seconds since 1970; for a database that does not tell, those of the caller."""
        if self.dialect.now is None:
            return Decimal(str(otherwise_s))
        return Decimal(self.rows(self.dialect.now)[0][0])

    def open_transactions(self) -> frozenset[str] | None:
        """Return the transactions that are open now, other than this connection's; None if that is not known."""
        shown = self.dialect.transactions
        if shown is None or str(self.rows(self.dialect.shows_transactions)[0][0]) != "1":
            return None
        return frozenset(str(row[0]) for row in self.rows(shown))

    def _column(self, facts: Any, n: int) -> Column:
        kind, name = int(facts.getColumnType(n)), str(facts.getColumnTypeName(n))
        return Column(
            str(facts.getColumnLabel(n)),
            kind in (_TIMESTAMP, _TIMESTAMP_WITH_ZONE),
            kind == _TIMESTAMP_WITH_ZONE or name in self.dialect.zoned,
            int(facts.isNullable(n)) == _NULLABLE,
            bool(facts.isAutoIncrement(n)),
        )

    @contextmanager
    def _result(self, query: str) -> Iterator[Any]:
        statement = self._connection.createStatement()
        try:
            yield statement.executeQuery(query)
        finally:
            statement.close()

    def _kind(self, facts: Any, n: int) -> Any:
        """Return the Java class of a column's timestamps; None for other columns."""
        kind = int(facts.getColumnType(n))
        if self.dialect.is_sqlite or kind not in (_TIMESTAMP, _TIMESTAMP_WITH_ZONE):
            return None
        has_zone = kind == _TIMESTAMP_WITH_ZONE or str(facts.getColumnTypeName(n)) == "timestamptz"
        return self._jvm.java.lang.Class.forName(f"java.time.{'Offset' if has_zone else 'Local'}DateTime")

    def _value(self, result: Any, n: int, kind: Any) -> str | None:
        value = result.getString(n) if kind is None else result.getObject(n, kind)
        if value is None or kind is None:
            return None if value is None else str(value)
        return time_text(str(value.toString()))


def time_text(text: str) -> str:
    """Return the text of a Java time as SQL writes it: a space instead of the T, and seconds."""
    day, minute, second, zone = (part or "" for part in _TIME.fullmatch(text).groups())  # type: ignore[union-attr]
    return f"{day} {minute}{second or ':00'}{zone}"


def failure(what: str, error: Exception) -> DatabaseError | None:
    """Return an error of the JVM as one of the database; None for any other error."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)  # of Py4J, of PySpark
    texts: list[str] = []
    while java is not None:
        texts.append(str(java.getMessage() or java.toString()).strip().partition("\n")[0])
        java = java.getCause()
    if not texts:
        return None
    detail = f" ({texts[-1]})" if texts[-1] not in texts[0] else ""
    return DatabaseError(f"{what}: {texts[0]}{detail}")


@contextmanager
def _asking(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if (found := failure(what, error)) is None:
            raise
        raise found from error
