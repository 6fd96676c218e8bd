"""Files with settings: text, Java's `.properties`, and files whose changes take effect without a restart.

`.properties` are read as `java.util.Properties` reads them: comments, escapes, continued lines.
"""

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from fencepost.config.check import ConfigError

_MARKS = {b"\xff\xfe\x00\x00": "UTF-32", b"\x00\x00\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def marked_encoding(begin: bytes) -> str | None:
    """Return the encoding whose byte order mark a text begins with; None for UTF-8 and for text without a mark."""
    return next((name for mark, name in _MARKS.items() if begin.startswith(mark)), None)


_BLANK = " \t\f"
_UNICODE_ESCAPE = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: Path | str, *, is_utf8: bool = False) -> dict[str, str]:
    """Return the keys and values of a file. If a key occurs twice, the last value counts. Raises ConfigError.

    With `is_utf8`, other bytes are refused, as Kafka's `FileConfigProvider` does; otherwise they are ISO-8859-1.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    if (encoding := marked_encoding(content)) is not None:
        raise ConfigError(f"{path}: it is encoded in {encoding}: save it as UTF-8")
    try:
        text = _decoded(content, is_utf8=is_utf8)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: it is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    return parse_properties(text, source=str(path))


def parse_properties(text: str, *, source: str = "<text>") -> dict[str, str]:
    """Return the keys and values of a text. Raises ConfigError, which names `source` and the line of every fault."""
    values: dict[str, str] = {}
    faults: list[str] = []
    for number, line in _logical_lines(text):
        raw_key, raw_value = _split(line)
        try:
            values[_unescaped(raw_key)] = _unescaped(raw_value)
        except ValueError as error:
            faults.append(f"{source}, line {number}: {error}")
    if faults:
        raise ConfigError(faults)
    return values


def _decoded(content: bytes, *, is_utf8: bool) -> str:
    """Decode as UTF-8 if the bytes are valid, because people write that; otherwise as ISO-8859-1, like Java."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        if is_utf8:
            raise
        return content.decode("iso-8859-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number of the first line, joined line) without comments and blank lines."""
    pending, first = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        line = natural.lstrip(_BLANK)
        if not pending:  # also after a backslash alone, where no line has begun
            if not line or line[0] in "#!":
                continue
            first = number
        if (len(line) - len(line.rstrip("\\"))) % 2:  # an even number of backslashes are escaped ones
            pending += line[:-1]
            continue
        yield first, pending + line
        pending = ""
    if pending:
        yield first, pending


def _split(line: str) -> tuple[str, str]:
    """Split at the first unescaped `=`, `:` or blank. Blanks around an `=` or `:` are part of the separator."""
    match = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", line, re.DOTALL)
    if match is None:
        return line, ""
    return match.group(1), line[match.end() :]


def _unescaped(text: str) -> str:
    parts: list[str] = []
    position = 0
    while (found := text.find("\\", position)) >= 0:
        parts.append(text[position:found])
        escaped = text[found + 1 : found + 2]
        position = found + 2
        if escaped == "u":
            if _UNICODE_ESCAPE.match(text, position) is None:
                raise ValueError(f"malformed \\u escape: \\u{text[position : position + 4]} needs four hex digits")
            escaped = chr(int(text[position : position + 4], 16))
            position += 4
        else:
            escaped = _ESCAPES.get(escaped, escaped)
        parts.append(escaped)
    parts.append(text[position:])
    # Two escapes may spell one character beyond the basic plane, as UTF-16 does.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


log = logging.getLogger(__name__)

T = TypeVar("T")


class WatchedFiles(Generic[T]):
    """What some files contain together, read again when one of them was changed or replaced. Thread-safe.

    The first reading raises ConfigError. If a later one does, the last contents stay in use, the log says why, and
    `stale_files` names them.
    """

    def __init__(self, paths: list[str], read: Callable[[], T]) -> None:
        self._paths = paths
        self._read = read
        self._lock = threading.Lock()
        self._seen = self._stamps()
        self._content = read()
        self.is_stale = False
        _all.add(self)

    @property
    def names(self) -> str:
        return ", ".join(self._paths)

    @property
    def content(self) -> T:
        stamps = self._stamps()
        if stamps != self._seen:
            with self._lock:
                if stamps != self._seen:
                    self._update()
                    self._seen = stamps
        return self._content

    def _update(self) -> None:
        try:
            self._content = self._read()
        except ConfigError as error:
            self.is_stale = True
            log.error("%s changed, and what was there before stays in use: %s", self.names, "; ".join(error.messages))
        else:
            self.is_stale = False
            log.info("%s: read again, as it was changed", self.names)

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self._paths]


_all: "WeakSet[WatchedFiles[Any]]" = WeakSet()


def stale_files() -> list[str]:
    """Return the watched files of this process that were changed and cannot be used: their last contents still are."""
    watched = list(_all)
    for each in watched:
        _ = each.content  # nobody may have asked for it since it was changed
    return sorted(each.names for each in watched if each.is_stale)


def read_text(path: str) -> str:
    """Return the text of a file. Raises ConfigError."""
    try:
        return Path(path).read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: it is not UTF-8") from None


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
