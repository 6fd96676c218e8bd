"""JdbcSource: rows of tables, or of a query, each written to a topic exactly once."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fencepost.api import (
    HIGH,
    LOW,
    ConnectError,
    DataFrameConnector,
    Positions,
    Split,
    Type,
    at_least,
    one_of,
    setting,
)
from fencepost.api.dataframe import DataFrame, Session
from fencepost.builtin.connector.jdbc.database import Access, Database, DatabaseError, failure
from fencepost.builtin.connector.jdbc.planner import Planner
from fencepost.builtin.connector.jdbc.settings import (
    QUERY,
    TABLE,
    ConnectionSettings,
    RangeSettings,
    Relations,
    TableSettings,
)

NONE, PRECISION_ONLY, BEST_FIT, EAGER_DOUBLE = "none", "precision_only", "best_fit", "best_fit_eager_double"
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_MOST_DIGITS = 18
_WHOLE = ((2, "TINYINT"), (4, "SMALLINT"), (9, "INT"), (_MOST_DIGITS, "BIGINT"))
"""The whole numbers that hold so many digits, as Confluent's connector chooses them."""
_AS_STORED = {
    "int": "BIGINT",
    "decimal(20,0)": "BIGINT",
    "timestamp_ntz": "STRING",
    "timestamp": "STRING",
    "date": "STRING",
}
"""SQLite's whole numbers have 64 bits, whatever its driver says of a column, and its times are what was stored."""


def stored_types(fields: Iterable[tuple[str, str]]) -> str:
    """Return Spark's option `customSchema` for columns of SQLite, given as (name, type); empty if none differs."""
    return ", ".join(f"{quoted(name)} {_AS_STORED[kind]}" for name, kind in fields if kind in _AS_STORED)


def expressions(fields: Iterable[tuple[str, str]], mapping: str, zone: str, local: Collection[str] = ()) -> list[str]:
    """Return an expression for each column, given as (name, type): timestamps are moments, decimals as `mapping` says.

    `zone`: the time zone of timestamps that have none. `local` are such columns that Spark took for moments in UTC.
    """
    found = []
    for name, kind in fields:
        column = quoted(name)
        changed = _moment(column, zone) if kind == "timestamp_ntz" else _number(column, kind, mapping)
        if kind == "timestamp" and name in local:
            changed = f"to_utc_timestamp({column}, '{zone}')"
        found.append(column if changed is None else f"{changed} AS {column}")
    return found


def quoted(name: str) -> str:
    """Return a name as Spark's SQL has it."""
    return "`" + name.replace("`", "``") + "`"


def _moment(column: str, zone: str) -> str:
    parts = ", ".join(f"{part}({column})" for part in ("year", "month", "day", "hour", "minute"))
    return f"make_timestamp({parts}, extract(SECOND FROM {column}), '{zone}')"


def _number(column: str, kind: str, mapping: str) -> str | None:
    match = _DECIMAL.fullmatch(kind)
    if match is None or mapping == NONE:
        return None
    precision, scale = int(match[1]), int(match[2])
    if scale == 0 and precision <= _MOST_DIGITS:
        return f"CAST({column} AS {next(name for digits, name in _WHOLE if precision <= digits)})"
    has_room = mapping == EAGER_DOUBLE or (mapping == BEST_FIT and precision <= _MOST_DIGITS)
    return f"CAST({column} AS DOUBLE)" if scale > 0 and has_room else None


_SORTED = "`fencepost order`"


class JdbcSource(ConnectionSettings, TableSettings, RangeSettings, DataFrameConnector):
    """Sends the rows of tables, which Spark reads by JDBC: new ones, changed ones, or all of them at an interval.

    A range of rows, (from, to] by id or timestamp, is one transaction, with the range's end as its offset. A range ends
    where the table is complete: no row will appear before its end that is not visible yet. Deleted rows are not seen,
    nor are states between two reads. The topic of a table is `topic.prefix` and its name.
    """

    query: str | None = setting(
        "query", default=None, doc="A query instead of tables: a SELECT. Its topic is `topic.prefix`."
    )
    prefix: str = setting("topic.prefix", importance=HIGH, doc="What topics begin with: a table's name follows.")
    poll_interval_ms: int = setting(
        "poll.interval.ms", type=Type.INT, default=5000, check=at_least(10), importance=LOW,
        doc="How often to look for new rows, or to read all rows (`bulk`).",
    )  # fmt: skip
    mapping: str = setting(
        "numeric.mapping", default=NONE, importance=LOW,
        check=one_of(NONE, PRECISION_ONLY, BEST_FIT, EAGER_DOUBLE),
        doc="Which decimals become numbers. `precision_only`: whole ones of up to 18 digits. `best_fit`: those of up "
        "to 18 digits, with decimal places as a double. `best_fit_eager_double`: all with decimal places, as a double.",
    )  # fmt: skip
    transforms_sql: str | None = setting(
        "transforms.sql", default=None,
        doc="A query over the rows of a range, called `split`: projections and filters.",
    )  # fmt: skip
    key_field: str | None = setting("key.field", default=None, doc="The column that becomes the record's key.")

    def __init__(self, properties: Mapping[str, object] | None = None) -> None:
        super().__init__(properties)
        self.topic = self.prefix
        self._access: Access = self.access()
        self._relations = Relations(self, self.query, self.prefix)
        self._planner = Planner(self, self.zone, self.poll_interval_ms)

    def check_together(self) -> list[str]:
        found = [*ConnectionSettings.faults(self), *TableSettings.faults(self), *RangeSettings.faults(self)]
        if self.query and TableSettings.lists(self):
            found.append(f"query excludes {TableSettings.lists(self)[0]}: remove one of them")
        if self.query and not self.prefix:
            found.append("topic.prefix must not be empty: it is the topic of query")
        return found

    def splits(self, session: Session) -> Iterable[Split]:
        """Return the splits of a connector that has no offsets."""
        return self.next_splits(session, _Nothing())

    def next_splits(self, session: Session, positions: Positions) -> Iterable[Split]:
        """Return the complete ranges that follow the committed places. Raises ConfigError and DatabaseError."""
        found: list[Split] = []
        try:
            with Database(session, self._access) as database:
                for relation in self._relations.all(database):
                    if positions.is_mine(relation.partition):
                        found += self._planner.splits(database, relation, positions.offset(relation.partition))
        except DatabaseError:
            self._relations.forget()
            raise
        return found

    def read(self, session: Session, split: Split) -> DataFrame:
        """Return the rows of a range in their order. Raises DatabaseError."""
        hint = split.hint
        reader = session.read.format("jdbc").options(**self._access.options(), fetchsize=str(self.fetched_rows))
        reader = reader.option("query", f"SELECT * FROM {hint['relation']} WHERE {hint['condition']}")
        try:
            frame = reader.load()
            if self._access.dialect.is_sqlite and (types := stored_types(_fields(frame))):
                frame = reader.option("customSchema", types).load()
        except Exception as error:
            if (found := failure(f"{dict(split.partition)} cannot be read", error)) is None:
                raise
            raise found from error
        times, names = [quoted(name) for name in hint["times"]], frame.columns
        if times:
            frame = frame.selectExpr("*", f"coalesce({', '.join(times)}) AS {_SORTED}")
        by = [*([_SORTED] if times else []), *([quoted(hint["id"])] if hint["id"] else [])]
        frame = frame.coalesce(1).sortWithinPartitions(*by) if by else frame
        rows = frame.select(*map(quoted, names))
        return rows.selectExpr(*expressions(_fields(rows), self.mapping.lower(), self.zone, hint["local"]))

    def row_settings(self) -> dict[str, str]:
        """Return nothing: a range is never committed in parts."""
        return {}

    def alter_offsets(self, offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]) -> bool:
        """Accept places of this mode, and tombstones for anything."""
        for key, offset in offsets.items():
            if offset is None:
                continue
            partition = dict(key)
            if len(partition) != 1 or not isinstance(partition.get(TABLE, partition.get(QUERY)), str):
                raise ConnectError(f"Partition objects should contain '{TABLE}' or '{QUERY}' alone, as GET shows them")
            if (fault := self._planner.fault(offset)) is not None:
                raise ConnectError(f"The offset of {partition} is no place with mode={self.mode}: {fault}")
        return True


class _Nothing:
    """`Positions` without an offset."""

    def offset(self, partition: object) -> None:
        return None

    def is_mine(self, partition: object) -> bool:
        return True


def _fields(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in frame.schema.fields]
