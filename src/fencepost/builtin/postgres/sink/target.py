"""A table that the sink writes: what the catalog says of it, what is created or added, and the SQL of a transaction."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fencepost.api import FatalError, RecordError
from fencepost.builtin.postgres.sink.changes import BadRecordsError, Changes, Column
from fencepost.builtin.postgres.sink.settings import INSERT, UPSERT, SinkSettings
from fencepost.builtin.postgres.sink.table_name import TableName, listed
from fencepost.builtin.postgres.sink.text import ColumnType, column_type, copy_array, copy_rows, schemaless_type
from fencepost.postgres.name import literal, quoted
from fencepost.record.binary_column import constant

LOCK_MS = 30_000
"""How long a statement waits for a lock of others before it is tried again later."""
_WHOLE = ("smallint", "integer", "bigint")
_ORDER, _DELETES = "__fencepost_order", "__fencepost_delete"
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attgenerated <> '', a.attidentity = 'a'
FROM pg_attribute a WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


class TargetColumn(NamedTuple):
    """A column as the catalog has it."""

    type: str
    is_generated: bool
    is_identity: bool


class Tables:
    """The tables of one sink, as last seen. Belongs to one task."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._known: dict[TableName, Mapping[str, TargetColumn]] = {}

    def forget(self) -> None:
        """Look at all tables again: one has changed, or may have."""
        self._known.clear()

    def ensure(self, connection: Any, changes: Changes) -> Mapping[str, TargetColumn]:
        """Return the columns of the table of changes, with all that these need; none if it is missing for deletes.

        Raises FatalError if the table or a column is missing and must not be made, BadRecordsError for records without
        a schema that have other fields.
        """
        known = self._known.get(changes.table) or self._looked_up(connection, changes.table)
        if not known and self._settings.auto_create and changes.is_delete is not None and all(changes.is_delete):
            return {}
        if not known:
            self._create(connection, changes)
            known = self._looked_up(connection, changes.table)
        if any(each.name not in known for each in changes.columns):  # as last seen
            known = self._looked_up(connection, changes.table)
        missing = [each for each in changes.columns if each.name not in known]
        if missing:
            self._add(connection, changes, missing)
            known = self._looked_up(connection, changes.table)
        return known

    def _looked_up(self, connection: Any, table: TableName) -> Mapping[str, TargetColumn]:
        rows = connection.execute(_COLUMNS, (table.sql,)).fetchall()
        found = self._known[table] = {name: TargetColumn(*rest) for name, *rest in rows}
        return found

    def _create(self, connection: Any, changes: Changes) -> None:
        if not self._settings.auto_create:
            raise FatalError(f"table {changes.table} is missing: create it, or set auto.create=true, and restart")
        if any(each.schema is None for each in changes.columns):
            raise FatalError(
                f"table {changes.table} is missing, and records without a schema cannot make it: create it"
            )
        parts = [self._declared(each, is_key=each.name in changes.keys) for each in changes.columns]
        if changes.keys:
            parts.append(f"PRIMARY KEY ({listed(changes.keys)})")
        _carry_out(connection, f"CREATE TABLE IF NOT EXISTS {changes.table.sql} ({', '.join(parts)})")

    def _declared(self, column: Column, *, is_key: bool) -> str:
        schema = column.schema
        assert schema is not None
        type_ = column_type(schema, self._settings.zone)
        default = ""
        if schema.default is not None and not isinstance(schema.default, dict | list):
            default = f" DEFAULT {literal(type_.text(schema.default))}"
        is_required = is_key or not (schema.is_optional or self._settings.delete_enabled)
        return f"{quoted(column.name)} {type_.name}{default}{' NOT NULL' if is_required else ''}"

    def _add(self, connection: Any, changes: Changes, missing: Sequence[Column]) -> None:
        names = ", ".join(each.name for each in missing)
        schemaless = [each for each in missing if each.schema is None]
        if schemaless:
            raise BadRecordsError(_with_values(changes, schemaless))
        if not self._settings.auto_evolve:
            raise FatalError(
                f"table {changes.table} has no column {names}: add it, leave the field out with fields.whitelist, or "
                "set auto.evolve=true, and restart"
            )
        for each in missing:
            schema = each.schema
            if each.name in changes.keys or (schema and not schema.is_optional and schema.default is None):
                raise FatalError(
                    f"column {each.name} cannot be added to table {changes.table}: its field is required and has no "
                    "default. Add the column, and restart"
                )
        added = ", ".join(f"ADD COLUMN IF NOT EXISTS {self._declared(each, is_key=False)}" for each in missing)
        _carry_out(connection, f"ALTER TABLE {changes.table.sql} {added}")


def _carry_out(connection: Any, statement: str) -> None:
    """Change a table, unless another task does it at the same moment."""
    import psycopg

    try:
        connection.execute(f"BEGIN; SET LOCAL lock_timeout = {LOCK_MS}; {statement}; COMMIT")
    except (
        psycopg.errors.UniqueViolation,
        psycopg.errors.DuplicateTable,
        psycopg.errors.DuplicateObject,  # the type of the table's rows
        psycopg.errors.DuplicateColumn,
    ):
        connection.execute("ROLLBACK")


def _with_values(changes: Changes, columns: Sequence[Column]) -> list[tuple[int, Exception]]:
    """Return the records that have a value in one of the columns."""
    found: dict[int, Exception] = {}
    for each in columns:
        error = RecordError(f"table {changes.table} has no column {each.name}")
        found |= {row: error for row, value in zip(changes.rows, each.values, strict=True) if value is not None}
    return sorted(found.items()) or [(row, error) for row in changes.rows]


class Stage:
    """The SQL by which changes get into their table through a temporary one, which the transaction drops at its end.

    The temporary table is declared by itself, not like the target: a session that hangs while it is filled has no lock
    on the target.
    """

    def __init__(
        self, number: int, changes: Changes, known: Mapping[str, TargetColumn], settings: SinkSettings
    ) -> None:
        self._changes = changes
        self._columns = [each for each in changes.columns if not known[each.name].is_generated]
        self._known = known
        self._settings = settings
        self._mode = settings.insert_mode.lower()
        self._is_ordered = changes.is_delete is not None or self._mode != INSERT
        self.sql = f"pg_temp.{quoted(f'fencepost_stage_{number}')}"

    @property
    def create(self) -> str:
        """Return the statement that makes the temporary table."""
        own = [f"{quoted(_ORDER)} integer", f"{quoted(_DELETES)} boolean"][: self._own_columns]
        columns = [f"{quoted(each.name)} {self._known[each.name].type}" for each in self._columns]
        return f"CREATE TEMPORARY TABLE {self.sql} ({', '.join([*own, *columns])}) ON COMMIT DROP"

    @property
    def copy(self) -> str:
        """Return the statement that fills it."""
        return f"COPY {self.sql} FROM STDIN"

    @property
    def _own_columns(self) -> int:
        return 2 if self._changes.is_delete is not None else 1 if self._is_ordered else 0

    def data(self) -> bytes:
        """Return the rows in COPY's text format. Raises BadRecordsError for values that do not fit their schemas."""
        changes = self._changes
        try:
            texts = [self._texts(each) for each in self._columns]
        except RecordError:
            raise BadRecordsError(self._faults()) from None
        if changes.is_delete is None and self._is_ordered:
            self._is_ordered = not self._has_each_key_once(texts)
        if changes.is_delete is not None:
            texts.insert(0, copy_array(schemaless_type([True]), changes.is_delete, "boolean"))
        if self._is_ordered:
            texts.insert(0, copy_array(schemaless_type([0]), range(len(changes)), "integer"))
        return copy_rows(texts) if texts else b""

    def _has_each_key_once(self, texts: Sequence[Any]) -> bool:
        """Say whether no two rows have the same key, if its columns are whole numbers: equal ones have one text."""
        import pyarrow.compute as pc

        keys = [
            (each, text) for each, text in zip(self._columns, texts, strict=True) if each.name in self._changes.keys
        ]
        if not all(self._known[each.name].type in _WHOLE and self._type(each).kind is int for each, _ in keys):
            return False
        found = pc.binary_join_element_wise(*(text for _, text in keys), constant(b" "))
        return len(found.unique()) == len(found)

    def _texts(self, column: Column) -> Any:
        return copy_array(self._type(column), column.values, self._known[column.name].type)

    def _type(self, column: Column) -> ColumnType:
        if column.schema is None:
            return schemaless_type(column.values)
        return column_type(column.schema, self._settings.zone, self._known[column.name].type)

    def _faults(self) -> list[tuple[int, Exception]]:
        found: dict[int, Exception] = {}
        for column in self._columns:
            for at, row in enumerate(self._changes.rows):
                try:
                    self._texts(column._replace(values=column.values[at : at + 1]))
                except RecordError as error:
                    found.setdefault(row, RecordError(f"column {column.name} of {self._changes.table}: {error}"))
        return sorted(found.items())

    @property
    def merge(self) -> list[str]:
        """Return the statements that change the table, in order."""
        target, keys = self._changes.table.sql, self._changes.keys
        names = [each.name for each in self._columns]
        found = []
        source = f"{self.sql} s"
        if self._changes.is_delete is not None:
            same = _equal("t", "s", keys)
            found.append(f"DELETE FROM {target} t USING {self.sql} s WHERE s.{quoted(_DELETES)} AND {same}")
            later = f"l.{quoted(_DELETES)} AND l.{quoted(_ORDER)} > s.{quoted(_ORDER)} AND {_equal('l', 's', keys)}"
            source += f" WHERE NOT s.{quoted(_DELETES)} AND NOT EXISTS (SELECT FROM {self.sql} l WHERE {later})"
            if all(self._changes.is_delete):
                return found
        if self._is_ordered and self._mode != INSERT:
            by = listed(keys, "s.")
            source = f"(SELECT DISTINCT ON ({by}) s.* FROM {source} ORDER BY {by}, s.{quoted(_ORDER)} DESC) s"
        others = [name for name in names if name not in keys and not self._known[name].is_identity]
        if self._mode not in (INSERT, UPSERT):
            if others:
                found.append(f"UPDATE {target} t SET {_set(others, 's')} FROM {source} WHERE {_equal('t', 's', keys)}")
            return found
        overriding = " OVERRIDING SYSTEM VALUE" if any(self._known[name].is_identity for name in names) else ""
        insert = f"INSERT INTO {target} ({listed(names)}){overriding} SELECT {listed(names, 's.')} FROM {source}"
        if self._mode == UPSERT:
            action = f"DO UPDATE SET {_set(others, 'EXCLUDED')}" if others else "DO NOTHING"
            insert += f" ON CONFLICT ({listed(keys)}) {action}"
        found.append(insert)
        return found


def _equal(one: str, other: str, keys: Sequence[str]) -> str:
    return " AND ".join(f"{one}.{quoted(key)} = {other}.{quoted(key)}" for key in keys)


def _set(names: Sequence[str], source: str) -> str:
    return ", ".join(f"{quoted(name)} = {source}.{quoted(name)}" for name in names)
