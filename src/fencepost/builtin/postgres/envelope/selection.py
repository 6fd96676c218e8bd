"""Which tables and columns are captured, by patterns of Java."""

from collections.abc import Callable

from fencepost.builtin.postgres.envelope.settings import PostgresSettings, regexes
from fencepost.config.java_regex import compiled

_OWN_SCHEMAS = ("pg_catalog", "information_schema", "pg_toast")
Matches = Callable[[str], bool]


def matching(patterns: str | None) -> Matches:
    """Return whether a whole name matches one of the patterns, whatever the case of its letters."""
    found = [compiled(f"(?i){one}") for one in regexes(patterns)]
    return lambda name: any(one.fullmatch(name) is not None for one in found)


class TableFilter:
    """Which tables are captured: those that the lists of schemas and of tables both allow, and that of signals."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._schema = _allowed(settings.schema_include_list, settings.schema_exclude_list)
        self._table = _allowed(settings.table_include_list, settings.table_exclude_list)
        self._signals = (settings.signal_data_collection or "").lower()
        self._database = settings.dbname.lower()

    def __call__(self, schema: str, table: str) -> bool:
        """Say whether a table is captured."""
        if schema in _OWN_SCHEMAS or schema.startswith(("pg_temp_", "pg_toast_")):
            return False
        return self.is_of_signals(schema, table) or (self._schema(schema) and self._table(f"{schema}.{table}"))

    def is_of_signals(self, schema: str, table: str) -> bool:
        """Say whether the rows that are inserted into a table are signals."""
        return f"{self._database}.{schema}.{table}".lower() == self._signals


def column_filter(settings: PostgresSettings, schema: str, table: str) -> Matches:
    """Return whether a column of a table, by its name, is written in values."""
    allowed = _allowed(settings.column_include_list, settings.column_exclude_list)
    return lambda column: allowed(f"{schema}.{table}.{column}")


def message_filter(settings: PostgresSettings) -> Matches:
    """Return whether messages of a prefix are written."""
    return _allowed(settings.message_prefix_include_list, settings.message_prefix_exclude_list)


def key_columns(settings: PostgresSettings, schema: str, table: str, columns: list[str]) -> list[str]:
    """Return the columns of a table that `message.key.columns` names, in the order of that list; none: its own key."""
    found: list[str] = []
    for one in (settings.message_key_columns or "").split(";"):
        tables, _, names = one.partition(":")
        for name in names.split(",") if names else []:
            matches = matching(f"{tables.strip()}.{name.strip()}")
            found += (column for column in columns if matches(f"{schema}.{table}.{column}"))
    return found


def _allowed(included: str | None, excluded: str | None) -> Matches:
    if included:
        return matching(included)
    is_excluded = matching(excluded)
    return lambda name: not is_excluded(name)
