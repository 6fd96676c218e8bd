"""How Spark has to be told to read a file of CSV, so that RFC 4180 holds: doubled quotes, and line breaks in quotes.

Spark reads line by line by default, and then a line break ends a record even inside quotes. It is told of such files
alone: only line by line it reads files whose lines end in different ways, and passes over lines of blanks.
"""

import re
from collections.abc import Callable, Mapping

QUOTE = '"'
HEAD_BYTES = 1 << 20
"""How much of a file is looked at, at most, to see where its first record ends; a smaller file is looked through."""

_OWN_LAYOUT = frozenset({"multiline", "linesep", "encoding", "charset"})
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def layout_options(
    given: Mapping[str, str], head: Callable[[], bytes], has_open_line: Callable[[str], bool]
) -> dict[str, str]:
    """Return options of Spark's reader besides those that are given, whose names are in lower case.

    `head` gives the first HEAD_BYTES of the file; `has_open_line` says of a whole file whether it has a line with an
    odd number of some character. Neither is asked where the answer is no matter.
    """
    quote = given.get("quote", QUOTE)
    if len(quote) != 1:
        return {}
    options = {} if "escape" in given else {"escape": quote}
    if not given.keys().isdisjoint(_OWN_LAYOUT) or not quote.isascii():
        return options
    first = head()
    is_open = has_open_line(quote) if len(first) >= HEAD_BYTES else is_any_line_open(first, quote.encode())
    if not is_open:
        return options
    separator = given.get("sep", given.get("delimiter", ",")).encode()
    return {**options, "multiLine": "true", "lineSep": record_end(first, separator, quote.encode())}


def layout_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return what `layout_options` decides for any file, as settings: how its rows are cut depends on it."""
    quote = given.get("quote", QUOTE)
    if len(quote) != 1:
        return {}
    escape = {} if "escape" in given else {"escape": quote}
    return escape if not given.keys().isdisjoint(_OWN_LAYOUT) else {**escape, "multiLine": "found in each file"}


def is_any_line_open(data: bytes, quote: bytes) -> bool:
    """Say whether a line has an odd number of quotes: then a quoted value goes on in the next one."""
    return quote in data and any(line.count(quote) & 1 for line in _LINE_END.split(data))


def record_end(head: bytes, separator: bytes, quote: bytes) -> str:
    """Return what ends the first record; a line feed where none does."""
    found = _record(separator, quote).match(head.removeprefix(_BYTE_ORDER_MARK)) or _LINE_END.search(head)
    return found[found.lastindex or 0].decode() if found else "\n"


def _record(separator: bytes, quote: bytes) -> re.Pattern[bytes]:
    """Return the pattern of lines up to the first that ends outside of quotes."""
    s, q = re.escape(separator), re.escape(quote)
    quoted = b"%s[^%s]*+(?:%s%s[^%s]*+)*+%s" % (q, q, q, q, q, q)
    value = b"(?:%s)?+(?:(?!%s)[^\r\n])*+" % (quoted, s)
    return re.compile(b"%s(?:%s%s)*+(\r\n|\n|\r)" % (value, s, value))
