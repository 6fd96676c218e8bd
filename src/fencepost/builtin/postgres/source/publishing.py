"""Which tables are captured, by the config and by the publication."""

import logging
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from typing import Any

from fencepost.api import FatalError
from fencepost.builtin.postgres.envelope import TableFilter
from fencepost.builtin.postgres.source.settings import SourceSettings
from fencepost.postgres.catalog import Table, tables
from fencepost.postgres.name import quoted
from fencepost.postgres.publication import Publication, add_tables, publication, without_identity

log = logging.getLogger(__name__)

_GENERATED_SINCE = 180_000
_PUBLISHED = """
SELECT attnames::text[], rowfilter FROM pg_publication_tables WHERE pubname = %s AND schemaname = %s AND tablename = %s
"""


@dataclass(frozen=True)
class Capture:
    """The captured tables: those of the config that are in the publication. `leaves` are those of partitioned ones."""

    tables: tuple[Table, ...]
    leaves: dict[int, tuple[Table, ...]]

    @classmethod
    def of(cls, connection: Any, config: SourceSettings) -> "Capture":
        """Ask the database. Raises FatalError if there is no publication."""
        found = publication(connection, config.publication_name)
        if found is None:
            raise FatalError(_missing(config))
        known, keep = tables(connection), TableFilter(config)
        published = {(each.schema, each.name) for each in found.tables}
        captured = tuple(t for t in known if keep(t.schema, t.name) and (t.schema, t.name) in published)
        by_oid = {table.oid: table for table in known}
        roots = [table for table in captured if table.is_partitioned]
        return cls(captured, {root.oid: _leaves(connection, root, by_oid) for root in roots})

    def only(self, oids: Container[int]) -> "Capture":
        """Return those of these tables."""
        return Capture(tuple(table for table in self.tables if table.oid in oids), self.leaves)

    def stored(self) -> Iterator[tuple[Table, Table]]:
        """Yield each table that has rows, and the one under whose name they are written."""
        for table in self.tables:
            if table.is_partitioned:
                yield from ((leaf, table) for leaf in self.leaves[table.oid])
            else:
                yield table, table


def published(connection: Any, name: str, table: Table) -> tuple[Table, str | None] | None:
    """Return a table with the columns that a publication has, and the condition for its rows; None if it lacks it.

    Servers before 18 list generated columns, which they do not send.
    """
    row = connection.execute(_PUBLISHED, (name, table.schema, table.name)).fetchone()
    if row is None:
        return None
    sends_generated = connection.info.server_version >= _GENERATED_SINCE
    columns = (each for each in table.columns if each.name in row[0] and (sends_generated or not each.is_generated))
    return replace(table, columns=tuple(columns)), row[1]


def ensure_publication(connection: Any, config: SourceSettings) -> None:
    """Make the publication, or add tables to it, as `publication.autocreate.mode` says.

    Raises FatalError if it is missing, or lacks a table that the config names and may not be changed.
    """
    mode = config.publication_autocreate_mode.lower()
    wanted = _wanted(tables(connection, TableFilter(config)))
    found = publication(connection, config.publication_name)
    if found is None and mode == "disabled":
        raise FatalError(_missing(config))
    if found is None:
        _create(connection, config, mode, wanted)
    elif not found.is_all_tables:
        _complete(connection, config, mode, found, wanted)


def _create(connection: Any, config: SourceSettings, mode: str, wanted: list[Table]) -> None:
    listed = ", ".join(f"{quoted(each.schema)}.{quoted(each.name)}" for each in wanted)
    what = {"all_tables": " FOR ALL TABLES", "no_tables": ""}.get(mode, f" FOR TABLE {listed}")
    if mode == "filtered" and not wanted:
        raise FatalError(
            f"no table is captured: change {type(config).key_of('table_include_list')}, or create the tables first"
        )
    for text in without_identity(wanted) if mode != "no_tables" else ():
        log.warning("%s", text)
    via_root = str(config.publish_via_partition_root).lower()
    name = quoted(config.publication_name)
    connection.execute(f"CREATE PUBLICATION {name}{what} WITH (publish_via_partition_root = {via_root})")


def _complete(connection: Any, config: SourceSettings, mode: str, found: Publication, wanted: list[Table]) -> None:
    lacking = [table for table in found.lacking(wanted) if not _is_shown_otherwise(found, table, wanted)]
    if not lacking:
        return
    if mode == "filtered":
        for text in without_identity(lacking):
            log.warning("%s", text)
        add_tables(connection, found.name, lacking)
        return
    of_signals = TableFilter(config).is_of_signals
    if any(of_signals(each.schema, each.name) for each in lacking):
        key = type(config).key_of("signal_data_collection")
        log.warning("publication %s lacks the table of %s: no signal arrives until it is added", found.name, key)
    lacking = [each for each in lacking if not of_signals(each.schema, each.name)]
    if lacking and config.table_include_list:
        names = ", ".join(f"{quoted(each.schema)}.{quoted(each.name)}" for each in lacking)
        raise FatalError(
            f"publication {found.name} lacks {names}, which {type(config).key_of('table_include_list')} names: run "
            f"ALTER PUBLICATION {quoted(found.name)} ADD TABLE {names}, or change the list"
        )


def _is_shown_otherwise(found: Publication, table: Table, wanted: list[Table]) -> bool:
    """Say whether a publication names the partitions of a table in its place."""
    return table.is_partitioned and not found.via_root


def _wanted(found: list[Table]) -> list[Table]:
    """Return tables without the partitions of those that are there themselves: they are published with them."""
    oids = {table.oid for table in found}
    return [table for table in found if table.root_oid is None or table.root_oid not in oids]


def _leaves(connection: Any, root: Table, by_oid: dict[int, Table]) -> tuple[Table, ...]:
    query = f"SELECT relid::oid::bigint FROM pg_partition_tree({root.oid}) WHERE isleaf ORDER BY 1"
    return tuple(by_oid[oid] for (oid,) in connection.execute(query).fetchall() if oid in by_oid)


def _missing(config: SourceSettings) -> str:
    name = config.publication_name
    return (
        f"publication {name} does not exist in database {config.dbname}: create it (CREATE PUBLICATION {quoted(name)} "
        f"FOR TABLE ...), or set {type(config).key_of('publication_autocreate_mode')}=filtered"
    )
