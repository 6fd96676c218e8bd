"""What a database's catalogs say about its tables, columns and types."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    `type_*` is the declared type. `domain_base_*` is the type at the bottom of a domain, and 0 and "" for other types.
    `is_array`, `element_*` and `enum_values` describe the declared type, or the base type of a domain: an array, the
    type of its elements, and the labels of an enum or of an array of enums. `default` is SQL. `is_generated` columns
    are computed by the server, and are in a stream only where a server of version 18 or newer is asked for them.
    """

    name: str
    position: int
    type_oid: int
    type_modifier: int
    type_name: str
    is_array: bool = False
    element_oid: int = 0
    enum_values: tuple[str, ...] = ()
    domain_base_oid: int = 0
    not_null: bool = False
    default: str | None = None
    is_generated: bool = False
    element_name: str = ""
    domain_base_name: str = ""
    domain_base_modifier: int = -1


@dataclass(frozen=True)
class Table:
    """A permanent table, or a partitioned one, which has no rows of its own.

    `key` has the columns of the primary key, in its order; `identity_key` those of REPLICA IDENTITY USING INDEX;
    `unique_keys` those of other unique indexes without a condition, by the indexes' names. `replica_identity` is `d`,
    `n`, `f` or `i`. `pages` are those of the file now, and `rows` is the estimate of the last ANALYZE (-1: none).
    `filenode` changes when the table is rewritten: row addresses (ctid) of another filenode mean nothing. `root_oid` is
    the partitioned table that a partition belongs to.
    """

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    replica_identity: str = "d"
    pages: int = 0
    filenode: int | None = None
    is_partitioned: bool = False
    root_oid: int | None = None
    identity_key: tuple[str, ...] = ()
    unique_keys: tuple[tuple[str, ...], ...] = ()
    rows: int = -1


@dataclass(frozen=True)
class TypeEntry:
    """A type. `kind` is `pg_type.typtype`: `b` base, `d` domain, `e` enum, `c` composite, `r` range, `m` multirange."""

    oid: int
    schema: str
    name: str
    kind: str
    element_oid: int
    base_oid: int
    base_modifier: int
    is_not_null: bool
    enum_values: tuple[str, ...]


def tables(connection: "Connection", keep: Callable[[str, str], bool] | None = None) -> list[Table]:
    """Return the tables of the database, by schema and name, without those of Postgres itself.

    Temporary and unlogged tables are left out: they are in no log.

    Args:
        connection: Of the database.
        keep: Gets the schema and the name of a table, and says whether to return it.
    """
    found = connection.execute(_TABLES.format(condition="").encode()).fetchall()
    return _completed(connection, [row for row in found if keep is None or keep(row[1], row[2])])


def table(connection: "Connection", oid: int) -> Table | None:
    """Return a table as it is now, or None. A change in a stream may be older than what this says."""
    found = connection.execute(_TABLES.format(condition=f"AND c.oid = {int(oid)}").encode()).fetchall()
    return next(iter(_completed(connection, found)), None)


def types(connection: "Connection", oids: Iterable[int]) -> dict[int, TypeEntry]:
    """Return types by their OIDs, with those of elements and bases."""
    listed = ", ".join(str(int(oid)) for oid in sorted(set(oids)))
    if not listed:
        return {}
    found = connection.execute(_TYPES.format(oids=listed).encode()).fetchall()
    return {row[0]: TypeEntry(*(*row[:-1], tuple(row[-1] or ()))) for row in found}


def _completed(connection: "Connection", rows: Sequence[tuple[Any, ...]]) -> list[Table]:
    if not rows:
        return []
    listed = ", ".join(str(row[0]) for row in rows)
    columns: dict[int, list[tuple[Any, ...]]] = {}
    for oid, *column in connection.execute(_COLUMNS.format(oids=listed).encode()).fetchall():
        columns.setdefault(oid, []).append(tuple(column))
    known = types(connection, (column[2] for each in columns.values() for column in each))
    keys: dict[int, list[tuple[Any, ...]]] = {}
    for oid, *key in connection.execute(_KEYS.format(oids=listed).encode()).fetchall():
        keys.setdefault(oid, []).append(tuple(key))
    return [_table(row, columns.get(row[0], []), keys.get(row[0], []), known) for row in rows]


def _table(
    row: tuple[Any, ...],
    columns: Sequence[tuple[Any, ...]],
    keys: Sequence[tuple[Any, ...]],
    known: Mapping[int, TypeEntry],
) -> Table:
    oid, schema, name, is_partitioned, identity, filenode, pages, rows, root = row
    primary = [names for is_primary, _, names in keys if is_primary]
    identical = [names for _, is_identity, names in keys if is_identity]
    return Table(
        oid=oid,
        schema=schema,
        name=name,
        columns=tuple(_column(each, known) for each in columns),
        key=tuple(primary[0]) if primary else (),
        replica_identity=identity,
        pages=pages or 0,
        filenode=filenode,
        is_partitioned=is_partitioned,
        root_oid=root,
        identity_key=tuple(identical[0]) if identical else (),
        unique_keys=tuple(tuple(names) for is_primary, _, names in keys if not is_primary),
        rows=rows,
    )


def _column(row: tuple[Any, ...], known: Mapping[int, TypeEntry]) -> Column:
    name, position, type_oid, modifier, not_null, default, is_generated = row
    own = known[type_oid]
    base, base_modifier = own, -1
    while base.kind == "d":
        base_modifier = base.base_modifier if base_modifier < 0 else base_modifier
        base = known[base.base_oid]
    element = known.get(base.element_oid)
    return Column(
        name=name,
        position=position,
        type_oid=type_oid,
        type_modifier=modifier,
        type_name=own.name,
        is_array=element is not None,
        element_oid=base.element_oid,
        enum_values=element.enum_values if element else base.enum_values,
        domain_base_oid=base.oid if own.kind == "d" else 0,
        not_null=not_null or own.is_not_null,
        default=default,
        is_generated=is_generated,
        element_name=element.name if element else "",
        domain_base_name=base.name if own.kind == "d" else "",
        domain_base_modifier=base_modifier,
    )


_TABLES = """
SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind = 'p', c.relreplident::text,
       nullif(c.relfilenode::bigint, 0),
       pg_relation_size(c.oid) / current_setting('block_size')::bigint,
       c.reltuples::bigint,
       CASE WHEN c.relispartition THEN pg_partition_root(c.oid)::oid::bigint END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema') {condition}
ORDER BY 2, 3
"""

_COLUMNS = """
SELECT a.attrelid::bigint, a.attname::text, a.attnum::int, a.atttypid::bigint, a.atttypmod, a.attnotnull,
       CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END, a.attgenerated <> ''
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid IN ({oids}) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""

_KEYS = """
SELECT i.indrelid::bigint, i.indisprimary, i.indisreplident,
       (SELECT array_agg(a.attname::text ORDER BY k.place)
        FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
        WHERE k.place <= i.indnkeyatts)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid IN ({oids}) AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
ORDER BY i.indrelid, c.relname
"""

_TYPES = """
WITH RECURSIVE needed(oid) AS (
    SELECT t.oid FROM pg_type t WHERE t.oid IN ({oids})
    UNION
    SELECT CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END
    FROM needed JOIN pg_type t ON t.oid = needed.oid
    WHERE t.typtype = 'd' OR t.typcategory = 'A'
)
SELECT t.oid::bigint, n.nspname::text, t.typname::text, t.typtype::text,
       CASE WHEN t.typcategory = 'A' AND t.typtype <> 'd' THEN t.typelem::bigint ELSE 0 END, t.typbasetype::bigint,
       t.typtypmod, t.typnotnull,
       (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid)
FROM needed JOIN pg_type t ON t.oid = needed.oid JOIN pg_namespace n ON n.oid = t.typnamespace
"""
