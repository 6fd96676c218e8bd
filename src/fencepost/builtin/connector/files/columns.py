"""The columns of files and of their directories, as expressions of Spark's SQL, and the options of its writers. Pure.

Rows become CSV and JSON lines that other readers take for the same rows.
"""

from collections.abc import Mapping, Sequence

from fencepost.api import ConfigError, OffsetRange
from fencepost.builtin.connector.files.moves import NAME_MAX_BYTES

JSON = "json"
PARQUET, TEXT = "parquet", "text"
LINE = (
    "CASE WHEN contains(value, char(10)) OR contains(value, char(13)) "
    "THEN translate(value, concat(char(13), char(10)), '  ') ELSE coalesce(value, 'null') END"
)
"""A JSON text on one line: between its tokens it may have had several. To look for lines first is cheap."""

_ESCAPED = "".join(map(chr, range(1, 32))) + "\"#%'*/:=?\\\x7f{[]^"
_NOTHING = "__HIVE_DEFAULT_PARTITION__"
_PATTERNS = {"year": "yyyy", "month": "yyyy-MM", "day": "yyyy-MM-dd", "hour": "yyyy-MM-dd-HH"}
_KEY = "partition.by"
_TIMES = frozenset({"timestamp", "timestamp_ntz", "date"})


def partition_columns(types: Mapping[str, str], wanted: Sequence[str]) -> dict[str, str]:
    """Return the expression of the directory for each entry of `partition.by`, by the name of its column.

    `types`: Spark's types of the existing columns; empty if not known yet. Raises ConfigError for an entry that is not
    a column, not a time, or not a unit of time.
    """
    found: dict[str, str] = {}
    for entry in wanted:
        name, _, unit = entry.partition(":")
        if unit and unit not in _PATTERNS:
            units = ", ".join(f":{unit}" for unit in _PATTERNS)
            raise ConfigError(f"Invalid value {entry} for configuration {_KEY}: it may end with {units}")
        made = f"{name}_{unit}" if unit else name
        if types and name not in types:
            raise ConfigError(f"{_KEY}={entry}: there is no such column; there are {', '.join(types)}")
        if types and unit and types[name] not in _TIMES:
            raise ConfigError(f"{_KEY}={entry}: the column is {types[name]}; make it a timestamp in transforms.sql")
        if made in found or (unit and made in types):
            raise ConfigError(f"{_KEY}={entry}: there is a column {made} already; rename it in transforms.sql")
        text = f"date_format({quoted(name)}, '{_PATTERNS[unit]}')" if unit else f"cast({quoted(name)} AS string)"
        # Never null nor empty: Spark would put something else in its place, and sort once more for that.
        found[made] = f"coalesce(nullif({text}, ''), '{_NOTHING}')"
    return found


def name_check(wanted: Sequence[str], ranges: Sequence[OffsetRange]) -> str | None:
    """Return a condition that is true if a row's directory can have its name, and fails with the place of other rows.

    None if all rows can. `ranges`: those of the frame's row partitions.
    """
    columns = [entry for entry in wanted if ":" not in entry]
    if not columns:
        return None
    places = ", ".join(f"'{each.topic}-{each.partition}, offsets {each.start} to {each.end - 1}'" for each in ranges)
    fault = (
        f"concat('{_KEY}=', {{entry}}, ': in ', element_at(array({places}), spark_partition_id() + 1), ' a value makes "
        f"a directory name of more than {NAME_MAX_BYTES} bytes: shorten it in transforms.sql')"
    )
    cases = [
        f"WHEN {_is_too_long(name, quoted(name))} THEN raise_error({fault.format(entry=text(name))})"
        for name in columns
    ]
    return f"CASE {' '.join(cases)} ELSE true END"


def too_long(wanted: Sequence[str], columns: Mapping[str, str]) -> str | None:
    """Return a condition that is true if a row's directory cannot have its name; None if all can.

    `columns` has the expression of each column, by its name.
    """
    found = [_is_too_long(name, columns[name]) for name in wanted if ":" not in name and name in columns]
    return " OR ".join(found) or None


def _is_too_long(name: str, column: str) -> str:
    """Return the condition. Spark writes three bytes, as in URLs, for each character that a path does not allow."""
    value, own = f"cast({column} AS string)", len(name.encode()) + 2 * sum(name.count(c) for c in _ESCAPED) + 1
    escaped = f"length({value}) - length(translate({value}, {text(_ESCAPED)}, ''))"
    size = f"octet_length({value})"  # asked first, and alone, of all that is short
    return f"(3 * {size} + {own} > {NAME_MAX_BYTES} AND {size} + 2 * ({escaped}) + {own} > {NAME_MAX_BYTES})"


def text(value: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + "".join(f"\\u{ord(c):04x}" if c in _ESCAPED else c for c in value) + "'"


def quoted(name: str) -> str:
    """Return a column's name, quoted for SQL."""
    return "`" + name.replace("`", "``") + "`"


CSV = "csv"
_QUOTE, _ESCAPE, _NULL = "quote", "escape", "nullValue"
_EMPTY = '""'  # as Spark writes an empty text
_TIME = "HH:mm:ss[.SSSSSS]"
_TIME_FORMATS = {
    # Spark's own formats end with milliseconds, and cut off what is finer.
    "timestampFormat": f"yyyy-MM-dd'T'{_TIME}[XXX]",
    "timestampNTZFormat": f"yyyy-MM-dd'T'{_TIME}",
}
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    JSON: {**_TIME_FORMATS, "ignoreNullFields": "false"},
    # RFC 4180: quotes are doubled, and blanks are part of a value.
    CSV: {
        **_TIME_FORMATS,
        _QUOTE: '"',
        _ESCAPE: '"',
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
    },
}


def writer_options(kind: str, columns: int, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's writer for files of so many columns: ours, but for those that are given."""
    named = {name.lower() for name in given}
    options = {name: value for name, value in _DEFAULTS.get(kind, {}).items() if name.lower() not in named}
    if kind != CSV:
        return {**options, **given}
    quote = next((value for name, value in given.items() if name.lower() == _QUOTE), None)
    if _ESCAPE in options and quote is not None:
        options[_ESCAPE] = quote
    if columns == 1 and _NULL.lower() not in named:
        options[_NULL] = _EMPTY  # else its line is empty, and Spark leaves it out
    return {**options, **given}


def file_column(kind: str, name: str, type_: str) -> str:
    """Return the expression of a column of Spark's type `type_`: bytes in CSV are base64, as they are in JSON."""
    if kind == CSV and type_ == "binary":
        return f"base64({quoted(name)}) AS {quoted(name)}"
    return quoted(name)
