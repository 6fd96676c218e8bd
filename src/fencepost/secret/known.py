"""The secrets that this process knows, so that no text that leaves it shows one (E11).

Whoever looks up a secret calls `remember`, and `hold` as long as it uses the secret. Logs, traces of failures and error
answers go through `hide`; `protect` does that for a handler of logs.
"""

import json
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from fencepost.secret.redaction import HIDDEN, is_secret_field, passwords, redacted

SHORTEST = 4
"""The fewest characters of a secret that is hidden: a shorter one is part of too many other texts."""
_MOST = 2_000
_NO_SECRETS = frozenset({"true", "false", "null", "none"})


Finder = tuple[str, str, re.Pattern[str]]
"""A secret, a part of it that no quoting changes, and the pattern of the secret in all its forms."""


class Secrets:
    """Values to hide. Thread-safe; of those that nobody holds, the oldest are forgotten when there are too many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, None] = {}  # the newest last
        self._held: Counter[str] = Counter()
        self._patterns: list[Finder] | None = []  # of the texts; None if they are to be made
        self._longest = 0

    def remember(self, value: str) -> None:
        """Hide this value from now on, however errors and logs quote it.

        Values of fewer than four characters, and words such as `true`, are part of too many other texts to be hidden.
        """
        with self._lock:
            self._remember(list(_parts(value)))

    def hold(self, values: Iterable[str], *, unless_in: str = "") -> Callable[[], None]:
        """Hide these values at least until the returned function is called; but not those that a text shows anyway."""
        parts = [part for value in values for part in _parts(value) if part not in unless_in]
        with self._lock:
            self._held.update(parts)
            self._remember(parts)

        def release() -> None:
            with self._lock:
                self._held -= Counter(parts)
                parts.clear()  # so that a second call does nothing

        return release

    def hide(self, text: str, *, unless_in: str = "") -> str:
        """Return the text with each secret replaced by `[hidden]`; but not those that `unless_in` has, in any case."""
        for secret, needle, pattern in self._known():
            if needle not in text:  # most texts have none, and this takes a tenth of the time
                continue
            if not unless_in or secret.lower() not in unless_in.lower():
                text = pattern.sub(HIDDEN, text)
        return text

    def longest(self) -> int:
        """Return how many characters the longest secret has, as it is: quoted, it may have more."""
        self._known()
        return self._longest

    def _remember(self, parts: list[str]) -> None:
        if any(part not in self._texts for part in parts):
            self._patterns = None
        for part in parts:
            self._texts.pop(part, None)  # it moves to the end
            self._texts[part] = None
        passing = [part for part in self._texts if part not in self._held]
        for oldest in passing[: max(0, len(passing) - _MOST)]:
            del self._texts[oldest]

    def _known(self) -> list[Finder]:
        """Return what finds all secrets, the longest first: one may be a part of another."""
        found = self._patterns
        if found is None:
            with self._lock:
                self._longest = max(map(len, self._texts), default=0)
                found = self._patterns = [_compiled(text) for text in sorted(self._texts, key=len, reverse=True)]
        return found


@lru_cache(maxsize=4 * _MOST)
def _compiled(text: str) -> Finder:
    return text, never_quoted(text), re.compile(quoted_pattern(text))


def _parts(value: str) -> Iterator[str]:
    """Yield the value as it is, without the white space around it, and what is a secret of its own in it.

    That is each line of a longer text, such as a key in PEM; a password in a JAAS config or a URL; a password, a token
    or a key in a JSON object.
    """
    inner = [part for part in passwords(value) if part]
    plain = [re.sub(r"\\(.)", r"\1", part) for part in inner]
    fields = [line for text in _fields(value) for line in (text, text.strip(), *_lines(text))]
    for text in dict.fromkeys((value, value.strip(), *_lines(value), *inner, *plain, *fields)):
        if len(text.strip()) >= SHORTEST and text.strip().lower() not in _NO_SECRETS:
            yield text


def _lines(value: str) -> list[str]:
    lines = [line.strip() for line in value.splitlines()]
    return [line for line in lines if not line.startswith("-----")] if len(lines) > 1 else []


def _fields(value: str) -> Iterator[str]:
    """Yield the secret fields of a JSON object, such as the private key of a service account."""
    if not value.lstrip().startswith("{"):
        return
    try:
        yield from _secret_texts(json.loads(value), is_secret=False)
    except (ValueError, RecursionError):
        return


def _secret_texts(node: Any, *, is_secret: bool) -> Iterator[str]:
    if isinstance(node, dict):
        for name, field in node.items():
            yield from _secret_texts(field, is_secret=is_secret or is_secret_field(name))
    elif isinstance(node, list):
        for item in node:
            yield from _secret_texts(item, is_secret=is_secret)
    elif isinstance(node, str) and is_secret:
        yield node


_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")
_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


def quoted_pattern(text: str) -> str:
    """Return a regular expression that finds the text, also if Python, JSON or a URL has quoted it, once or more.

    Each quoting puts backslashes in front of quotation marks and backslashes, so any number of them is allowed there.
    At the beginning and the end none more is needed: a search for them would take too long in a text full of them.
    """
    pieces: list[str] = []
    slashes = 0
    for char in text:
        if char == "\\":
            slashes += 1
            continue
        pieces.append(_piece(char, slashes, is_first=not pieces))
        slashes = 0
    return "".join([*pieces, _slashes(slashes)])


def never_quoted(text: str) -> str:
    """Return the longest part of the text that no quoting changes; it may be empty."""
    return max(_PLAIN.findall(text), key=len, default="")


def _piece(char: str, slashes: int, *, is_first: bool) -> str:
    before = _slashes(slashes, "" if is_first else ",")
    if _PLAIN.match(char):
        return before + re.escape(char)
    slash = r"\\" if is_first else r"\\+" * (not slashes)  # its own may be among those in front of it
    plain = re.escape(char)
    if char in "\"'/" and not slashes and not is_first:
        plain = r"\\*" + plain
    return f"{before}(?:{'|'.join([plain, *_escaped(char, slash)])})"


def _escaped(char: str, slash: str) -> Iterator[str]:
    """Yield patterns of a character's other forms; `slash` is that of the backslash in front of most of them."""
    utf8 = char.encode("utf-8", "surrogatepass")
    utf16 = char.encode("utf-16-be", "surrogatepass").hex()
    yield "(?i:" + quote(char, safe="", errors="surrogatepass") + ")"
    yield f"(?i:{slash}" + r"\\+".join(f"x{byte:02x}" for byte in utf8) + ")"
    yield f"(?i:{slash}" + r"\\+".join(f"u{utf16[n : n + 4]}" for n in range(0, len(utf16), 4)) + ")"
    yield f"(?i:{slash}(?:U{ord(char):08x}|x{ord(char):02x}))"
    if char in _ESCAPES:
        yield slash + _ESCAPES[char]
    if char == " ":
        yield r"\+"


def _slashes(count: int, more: str = "") -> str:
    return rf"(?:\\{{{count}{more}}}|(?i:%5C){{{count}}})" if count else ""


_secrets = Secrets()

remember = _secrets.remember
hold = _secrets.hold
hide_known = _secrets.hide
longest_known = _secrets.longest


def hide(text: str, *, unless_in: str = "") -> str:
    """Return a message without the secrets that this process knows, and without any password in it.

    Secrets that `unless_in` has are not hidden: to whoever wrote that, it would say that they are some.

    What somebody parses goes through `hide_known`: in a value, `password=` may be followed by a pattern.
    """
    return redacted(hide_known(text, unless_in=unless_in))


_STORES = re.compile(r"(boto3|botocore|s3transfer|urllib3|requests|hvac|azure|msal|google|grpc)(\.|$)")


class _HidingFormatter(logging.Formatter):
    """Formats as another formatter does, and hides known secrets in the result, tracebacks included.

    Passwords that only their form tells are hidden by that formatter, before it makes JSON of a message.
    """

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return hide_known(self._inner.format(record))


def shows_no_answer(record: logging.LogRecord) -> bool:
    """Return whether to show a line: at DEBUG, clients of secret stores print answers before anyone reads them."""
    return record.levelno > logging.DEBUG or _STORES.match(record.name) is None


def protect(handler: logging.Handler) -> None:
    """Let a handler, which has its formatter, print no secret."""
    handler.addFilter(shows_no_answer)
    handler.setFormatter(_HidingFormatter(handler.formatter or logging.Formatter()))
