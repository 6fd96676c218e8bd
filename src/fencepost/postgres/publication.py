"""Publications: which tables, rows and columns a stream may contain."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.postgres.catalog import Table
from fencepost.postgres.name import literal, quoted

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True)
class PublishedTable:
    """A table of a publication. `columns` and `row_filter` are what limits it; None where nothing does."""

    schema: str
    name: str
    columns: tuple[str, ...] | None
    row_filter: str | None


@dataclass(frozen=True)
class Publication:
    """What a publication has. With `via_root`, changes of partitions arrive as those of the partitioned table.

    `operations` are of `insert`, `update`, `delete` and `truncate`.
    """

    name: str
    is_all_tables: bool
    via_root: bool
    operations: frozenset[str]
    tables: tuple[PublishedTable, ...]

    def lacking(self, tables: Iterable[Table]) -> tuple[Table, ...]:
        """Return the tables whose changes it does not publish."""
        names = {(each.schema, each.name) for each in self.tables}
        return tuple(each for each in tables if (each.schema, each.name) not in names)


def publication(connection: "Connection", name: str) -> Publication | None:
    """Return a publication of the database, or None."""
    row = connection.execute(
        "SELECT puballtables, pubviaroot, pubinsert, pubupdate, pubdelete, pubtruncate, oid "
        f"FROM pg_publication WHERE pubname = {literal(name)}".encode()
    ).fetchone()
    if row is None:
        return None
    published = dict(zip(("insert", "update", "delete", "truncate"), row[2:6], strict=True))
    tables = connection.execute(
        f"""
        SELECT t.schemaname, t.tablename, t.rowfilter,
               CASE WHEN r.prattrs IS NOT NULL THEN t.attnames::text[] END
        FROM pg_publication_tables t
        JOIN pg_namespace n ON n.nspname = t.schemaname
        JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
        LEFT JOIN pg_publication_rel r ON r.prpubid = {int(row[6])} AND r.prrelid = c.oid
        WHERE t.pubname = {literal(name)} ORDER BY 1, 2
        """.encode()
    ).fetchall()
    found = (PublishedTable(each[0], each[1], None if each[3] is None else tuple(each[3]), each[2]) for each in tables)
    operations = frozenset(name for name, is_published in published.items() if is_published)
    return Publication(name, row[0], row[1], operations, tuple(found))


def create_publication(connection: "Connection", name: str, tables: Iterable[Table] | None) -> None:
    """Create a publication of tables, or of all tables; of partitioned tables as such.

    Raises psycopg.errors.InsufficientPrivilege: it takes the owner of the tables, or a superuser for all tables.
    """
    listed = "ALL TABLES" if tables is None else _listed(tables)
    kind = f" FOR {listed}" if listed else ""
    connection.execute(f"CREATE PUBLICATION {quoted(name)}{kind} WITH (publish_via_partition_root = true)".encode())


def add_tables(connection: "Connection", name: str, tables: Iterable[Table]) -> None:
    """Add tables to a publication. Their changes are sent from this transaction on."""
    connection.execute(f"ALTER PUBLICATION {quoted(name)} ADD {_listed(tables)}".encode())


def set_tables(connection: "Connection", name: str, tables: Iterable[Table]) -> None:
    """Replace the tables of a publication."""
    connection.execute(f"ALTER PUBLICATION {quoted(name)} SET {_listed(tables)}".encode())


def without_identity(tables: Iterable[Table]) -> list[str]:
    """Return a warning for each table whose updates and deletes fail in the application once it is published."""
    return [
        f"{each.schema}.{each.name} has no replica identity: once it is published, each UPDATE and DELETE of the "
        f"application fails. Give it a primary key, or: ALTER TABLE {quoted(each.schema)}.{quoted(each.name)} "
        "REPLICA IDENTITY FULL"
        for each in tables
        if each.replica_identity == "n" or (each.replica_identity == "d" and not each.key)
    ]


def _listed(tables: Iterable[Table]) -> str:
    names = ", ".join(f"{quoted(each.schema)}.{quoted(each.name)}" for each in tables)
    return f"TABLE {names}" if names else ""
