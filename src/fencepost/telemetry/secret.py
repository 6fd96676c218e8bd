"""The secrets that this process knows, so that no text that leaves it shows one (E11).

Whoever looks up a secret calls `remember`. Logs, traces of failures and error answers go through `hide`; `protect` does
that for a handler of logs.
"""

import json
import logging
import re
import threading
from collections.abc import Iterator
from urllib.parse import quote

HIDDEN = "[hidden]"

_SHORTEST = 4
_MOST = 2_000
_PASSWORD = re.compile(
    r"""(?i)\w*(?:password|secret)\w*\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;,&"']+))|://[^/\s:@]*:([^/\s@]+)@"""
)
_NO_SECRETS = frozenset({"true", "false", "null", "none"})


class Secrets:
    """Values to hide. Thread-safe; those remembered longest ago are forgotten when there are too many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: dict[str, None] = {}  # the newest last
        self._kept: set[str] = set()
        self._pattern: re.Pattern[str] | None = None  # of the texts; None if it is to be made

    def remember(self, value: str, *, is_kept: bool = False) -> None:
        """Hide this value from now on, in the forms in which errors and logs quote it.

        Values of fewer than four characters, and words such as `true`, are part of too many other texts to be hidden.
        One that `is_kept` is never forgotten: it is looked up once, and used as long as the process lives.
        """
        with self._lock:
            forms = list(_forms(value))
            if any(form not in self._texts for form in forms):
                self._pattern = None
            for form in forms:
                self._texts.pop(form, None)  # it moves to the end
                self._texts[form] = None
            if is_kept:
                self._kept.update(forms)
            passing = [form for form in self._texts if form not in self._kept]
            for oldest in passing[: max(0, len(passing) - _MOST)]:
                del self._texts[oldest]

    def hide(self, text: str) -> str:
        """Return the text with each secret replaced by `[hidden]`."""
        if not self._texts:
            return text
        return (self._pattern or self._compiled()).sub(HIDDEN, text)

    def _compiled(self) -> re.Pattern[str]:
        """Return the pattern of all secrets, the longest first: one may be a part of another."""
        with self._lock:
            pattern = re.compile("|".join(map(re.escape, sorted(self._texts, key=len, reverse=True))))
            self._pattern = pattern
            return pattern


def _forms(value: str) -> Iterator[str]:
    """Yield the value as it is, without the white space around it, and quoted as in Python, JSON and URLs.

    Lines of a longer text, such as a key in PEM, are secrets of their own, and so are the passwords in a JAAS config or
    a URL.
    """
    inner = [part for found in _PASSWORD.findall(value) for part in found if part]
    for text in dict.fromkeys((value, value.strip(), *_lines(value), *inner)):
        if len(text.strip()) >= _SHORTEST and text.strip().lower() not in _NO_SECRETS:
            yield text
            yield from (repr(text)[1:-1], json.dumps(text)[1:-1], quote(text, safe=""))


def _lines(value: str) -> list[str]:
    lines = [line.strip() for line in value.splitlines()]
    return [line for line in lines if not line.startswith("-----")] if len(lines) > 1 else []


_secrets = Secrets()

remember = _secrets.remember
hide = _secrets.hide

_STORES = re.compile(r"(boto3|botocore|s3transfer|urllib3|requests|hvac|azure|msal|google|grpc)(\.|$)")


class _HidingFormatter(logging.Formatter):
    """Formats as another formatter does, and hides secrets in the result, tracebacks included."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return hide(self._inner.format(record))


def _shows_no_answer(record: logging.LogRecord) -> bool:
    """Return whether to print a line: at DEBUG, clients of secret stores print answers before anyone reads them."""
    return record.levelno > logging.DEBUG or _STORES.match(record.name) is None


def protect(handler: logging.Handler) -> None:
    """Let a handler, which has its formatter, print no secret."""
    handler.addFilter(_shows_no_answer)
    handler.setFormatter(_HidingFormatter(handler.formatter or logging.Formatter()))
