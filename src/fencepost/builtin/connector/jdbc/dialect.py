"""What differs between databases, as far as it must be known here. Spark knows the rest."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

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
