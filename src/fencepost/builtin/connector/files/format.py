"""How rows become CSV and JSON lines that other readers take for the same rows. Pure."""

from collections.abc import Mapping

from fencepost.builtin.connector.files.columns import JSON, quoted

CSV = "csv"
_QUOTE, _ESCAPE, _NULL = "quote", "escape", "nullValue"
_EMPTY = '""'  # as Spark writes an empty text
_TIME = "HH:mm:ss[.SSSSSS]"
_TIMES = {
    # Spark's own formats end with milliseconds, and cut off what is finer.
    "timestampFormat": f"yyyy-MM-dd'T'{_TIME}[XXX]",
    "timestampNTZFormat": f"yyyy-MM-dd'T'{_TIME}",
}
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    JSON: {**_TIMES, "ignoreNullFields": "false"},
    # RFC 4180: quotes are doubled, and blanks are part of a value.
    CSV: {
        **_TIMES,
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
