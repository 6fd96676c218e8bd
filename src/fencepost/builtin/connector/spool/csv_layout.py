"""The options with which Spark reads a CSV file as RFC 4180 says: doubled quotes, and line breaks in quotes.

By default Spark reads line by line, and a line break ends a record even inside quotes. The options are only set for
files with such records: only line by line Spark reads files with mixed line ends, and skips blank lines.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

QUOTE = '"'
HEAD_BYTES = 1 << 20
"""How much of a file is read at most to find the end of its first record; a smaller file is read whole."""

_OWN_LAYOUT = frozenset({"multiline", "linesep", "encoding", "charset"})
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class QuoteRule(NamedTuple):
    """What separates values, quotes them and escapes quotes, and what begins a comment, if anything does."""

    separator: bytes
    quote: bytes
    escape: bytes
    comment: bytes = b""


def layout_options(
    given: Mapping[str, str], head: Callable[[], bytes], has_open_line: Callable[[str], bool]
) -> dict[str, str]:
    """Return options of Spark's reader in addition to the given ones, whose names are in lower case.

    `head` returns the first HEAD_BYTES of the file; `has_open_line` says whether the whole file has a line with an odd
    number of some character. They are only called if the answer matters.
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
    return {**options, "multiLine": "true", "lineSep": record_end(first, _separator(given), quote.encode())}


def quote_rule(options: Mapping[str, str]) -> QuoteRule | None:
    """Return the rule to check whether the last quoted value of a file is closed, given all options of Spark's reader.

    None if no value continues on another line, or if the bytes of the file cannot show it.
    """
    given = {name.lower(): value for name, value in options.items()}
    quote, escape = given.get("quote", QUOTE), given.get("escape", QUOTE)
    if given.get("multiline", "false").lower() != "true" or len(quote) != 1 or len(escape) != 1:
        return None
    if not (quote + escape).isascii() or not _is_like_ascii(given.get("encoding", given.get("charset", "UTF-8"))):
        return None
    return QuoteRule(_separator(given), quote.encode(), escape.encode(), given.get("comment", "").encode())


def _separator(given: Mapping[str, str]) -> bytes:
    return given.get("sep", given.get("delimiter", ",")).replace("\\t", "\t").encode()


def _is_like_ascii(encoding: str) -> bool:
    try:
        return '\n\r",'.encode(encoding) == b'\n\r",'
    except LookupError:
        return False


def layout_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return the decisions of `layout_options` as settings, for any file: the cut of its rows depends on them."""
    quote = given.get("quote", QUOTE)
    if len(quote) != 1:
        return {}
    escape = {} if "escape" in given else {"escape": quote}
    return escape if not given.keys().isdisjoint(_OWN_LAYOUT) else {**escape, "multiLine": "found in each file"}


def is_any_line_open(data: bytes, quote: bytes) -> bool:
    """Say whether a line has an odd number of quotes, so that a quoted value continues on the next one."""
    return quote in data and any(line.count(quote) & 1 for line in lines_of(data))


def lines_of(data: bytes) -> list[bytes]:
    """Return the lines of a file as Spark's text reader splits them."""
    return _LINE_END.split(data)


def ends_in_quotes(lines: Iterable[bytes], rule: QuoteRule) -> bool:
    """Say whether a quoted value is still open after the last line, and so contains the rows that should follow it."""
    s, q, e = map(re.escape, (rule.separator, rule.quote, rule.escape))
    to_quote = _to_quote(q)
    if rule.escape != rule.quote:
        to_quote = b"[^%s%s]*+(?:%s(?:.|$)[^%s%s]*+)*+%s" % (q, e, e, q, e, q)
    unquoted = b"(?:(?!%s).)*+" % s
    value = b"(?:%s%s|(?!%s))%s" % (q, to_quote, q, unquoted)
    closed = re.compile(b"%s(?:%s%s)*+" % (value, s, value), re.DOTALL)
    closing = re.compile(b"%s%s(?:%s%s)*+" % (to_quote, unquoted, s, value), re.DOTALL)
    is_open, is_first = False, True
    for line in lines:
        whole = line.removeprefix(_BYTE_ORDER_MARK) if is_first else line
        is_first = False
        if is_open or not (rule.comment and whole.startswith(rule.comment)):
            is_open = not (closing if is_open else closed).fullmatch(whole)
    return is_open


def record_end(head: bytes, separator: bytes, quote: bytes) -> str:
    """Return the end of the first record; a line feed if there is none."""
    found = _record(separator, quote).match(head.removeprefix(_BYTE_ORDER_MARK)) or _LINE_END.search(head)
    return found[found.lastindex or 0].decode() if found else "\n"


def _record(separator: bytes, quote: bytes) -> re.Pattern[bytes]:
    s, q = re.escape(separator), re.escape(quote)
    value = b"(?:%s%s)?+(?:(?!%s)[^\r\n])*+" % (q, _to_quote(q), s)
    return re.compile(b"%s(?:%s%s)*+(\r\n|\n|\r)" % (value, s, value))


def _to_quote(quote: bytes) -> bytes:
    """Return the pattern of what follows an opening quote, up to the closing one; a doubled quote is none."""
    return b"[^%s]*+(?:%s%s[^%s]*+)*+%s" % (quote, quote, quote, quote, quote)


def has_open_line(session: Any, path: str, quote: str) -> bool:
    """Let Spark find out whether a line of a file has an odd number of quotes."""
    lines = _lines(session, path)
    return not lines.where(f"(length(value) - length(replace(value, char({ord(quote)}), ''))) % 2 = 1").isEmpty()


def ends_in_open_quotes(session: Any, path: str, rule: QuoteRule) -> bool:
    """Let an executor find out, line by line in their order, whether the last quoted value of a file is open."""

    def found(rows: Iterable[Any]) -> Iterator[bool]:
        yield ends_in_quotes((row[0].encode(errors="replace") for row in rows), rule)

    return bool(_lines(session, path).coalesce(1).rdd.mapPartitions(found).first())


def _lines(session: Any, path: str) -> Any:
    return session.read.option("__globPaths__", "false").text(path)
