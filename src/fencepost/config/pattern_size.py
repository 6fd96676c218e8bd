"""How large a regular expression is once it is compiled, which the library `regex` does not limit.

It writes counted repetitions out, and needs four times as long for every two repetitions inside of each other.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_SIZE = 100_000
MAX_DEPTH = 10
_EMPTY = 100  # a thousand groups with nothing in them, written out, take as long as a hundred thousand characters

_TOKEN = re.compile(
    r"\\."
    r"|(?P<comment>\(\?#(?:\\.|[^\\)])*\)?)"
    r"|\(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]*))?(?P<flags_end>[:)])"
    r"|(?P<open>\((?:\?(?:P?<[^>=!]*>|<?[=!]|>))?)"
    r"|(?P<close>\))"
    r"|(?P<repeat>[*+?]|\{(?P<least>[\d\s]*)(?:,(?P<most>[\d\s]*)|(?<=\d)\s*)\})[+?]?"
    r"|.",
    re.DOTALL,
)
_OF_CLASS = re.compile(r"\\.|&&\]?|(?P<start>\[\^?\]?)|(?P<end>\])|.", re.DOTALL)
_SPACE = re.compile(r"\s+|#[^\n]*")


class _Size(NamedTuple):
    """The size of a part of a pattern: what it consists of, its nested repetitions, and its groups of nothing."""

    parts: int = 0
    depth: int = 0
    empty: int = 0

    def followed_by(self, other: "_Size") -> "_Size":
        return _Size(self.parts + other.parts, max(self.depth, other.depth), self.empty + other.empty)

    def repeated(self, count: int) -> "_Size":
        return _Size(self.parts * count, self.depth + 1, self.empty * count)

    def closed(self) -> "_Size":
        return self if self.parts else self._replace(empty=self.empty + 1)


def size_fault(pattern: str) -> str | None:
    """Return why a pattern would take too long to compile; None if it would not."""
    size, depth = _measured(pattern)
    if depth > MAX_DEPTH:
        return f"more than {MAX_DEPTH} repetitions inside of each other"
    if size > MAX_SIZE:
        return f"its repetitions, written out, have more than {MAX_SIZE} parts"
    return None


def _measured(pattern: str) -> tuple[int, int]:
    """Return the number of parts, and how many repetitions are inside of each other at most."""
    groups = [_Size()]  # of each open group, without its last part
    last = _Size()
    for token in _tokens(pattern):
        if token["repeat"]:
            last = last.repeated(_count(token))
            continue
        groups[-1] = groups[-1].followed_by(last)
        last = _Size(parts=1)
        if token["open"] or token["flags_end"]:
            groups.append(_Size())
            last = _Size()
        elif token["close"] and len(groups) > 1:
            last = groups.pop().closed()
    groups[-1] = groups[-1].followed_by(last)
    return sum(one.parts + _EMPTY * one.empty for one in groups), max(one.depth for one in groups)


def _tokens(pattern: str) -> Iterator[re.Match[str]]:
    """Yield repetitions, the two ends of groups, and parts: a class of characters is one.

    Comments, flags, and space that means nothing are left out, as a repetition after them is of what is before them.
    """
    spaced = [False]  # for each open group, whether space in it means nothing: (?x)
    at = 0
    while at < len(pattern):
        if spaced[-1] and (space := _SPACE.match(pattern, at)) is not None:
            at = space.end()
            continue
        token = _TOKEN.match(pattern, at)
        assert token is not None  # its last branch is any character
        at = _class_end(pattern, at) if token[0] == "[" else token.end()
        is_spaced = (spaced[-1] or "x" in (token["on"] or "")) and "x" not in (token["off"] or "")
        if token["flags_end"] == ")":
            spaced[-1] = is_spaced
        elif not token["comment"]:
            if token["open"] or token["flags_end"]:
                spaced.append(is_spaced)
            elif token["close"] and len(spaced) > 1:
                spaced.pop()
            yield token


def _class_end(pattern: str, start: int) -> int:
    """Return where a class of characters ends. A bracket that closes is a character at the beginning, or after &&."""
    depth = 0
    for token in _OF_CLASS.finditer(pattern, start):
        depth += bool(token["start"]) - bool(token["end"])
        if not depth:
            return token.end()
    return len(pattern)


def _count(token: re.Match[str]) -> int:
    least, most = ("".join((token[name] or "").split()) for name in ("least", "most"))
    return max(1, int(most or least or 1))
