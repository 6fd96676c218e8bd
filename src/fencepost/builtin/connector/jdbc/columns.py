"""The columns that records have, as expressions of Spark's SQL over the columns that its JDBC source returns."""

import re
from collections.abc import Collection, Iterable

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
