"""What signals ask for: rows of a table with an id, a type and data, as Debezium's documentation has them.

`execute-snapshot` reads the rows of tables again, `log` writes a message to the log. Others are named in the log.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence

from fencepost.config.java_regex import JavaPattern, compiled

log = logging.getLogger(__name__)

_COLUMNS = 3
_MOST_CHARACTERS = 10_000  # patterns of two megabytes take half a minute
_NOT_SUPPORTED = ("additional-condition", "additional-conditions")


def asked_for(values: Sequence[str | None], captured: Callable[[], Iterable[str]]) -> list[str]:
    """Return which of the captured tables (`SCHEMA.TABLE`) are to be read again: none if the signal is another one.

    Whatever is wrong with it is said in the log: a row of a table must not stop the connector. Errors of `captured`
    propagate.
    """
    try:
        patterns = _patterns(values)
    except Exception as error:  # of parsers: whoever inserts the row chooses what they are given
        return _not_followed(values, str(error) or type(error).__name__)
    if not patterns:
        return []
    names = list(captured())
    try:
        found = [name for name in names if any(each.fullmatch(name) for each in patterns)]
    except JavaPattern.slow_error as error:
        return _not_followed(values, str(error))
    return found or _not_followed(values, f"no captured table is meant; there are {', '.join(names)}")


def _not_followed(values: Sequence[str | None], why: str) -> list[str]:
    log.warning("signal %s is not followed: %s", next(iter(values), None), why)
    return []


def _patterns(values: Sequence[str | None]) -> list[JavaPattern]:
    if len(values) != _COLUMNS:
        raise ValueError(f"the table of signals has {len(values)} columns, not {_COLUMNS}: id, type, data")
    if len(values[2] or "") > _MOST_CHARACTERS:
        raise ValueError(f"its data has more than {_MOST_CHARACTERS:,} characters: ask with several signals")
    kind, data = values[1], json.loads(values[2] or "{}")
    if not isinstance(data, dict):
        raise ValueError("its data is no JSON object")
    if kind == "log":
        log.info("signal %s: %s", values[0], data.get("message"))
        return []
    if kind != "execute-snapshot":
        raise ValueError(f"its type {kind} is not supported; execute-snapshot and log are")
    for key in _NOT_SUPPORTED:
        if data.get(key):
            raise ValueError(f"its data has {key}, which is not supported: all rows of a table are read")
    names = data.get("data-collections")
    if not isinstance(names, list) or not names:
        raise ValueError("its data has no data-collections, a list of tables as SCHEMA.TABLE")
    return [compiled("(?i)" + str(each).replace('"', "")) for each in names]
