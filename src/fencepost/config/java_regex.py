"""Regular expressions as Java writes them: those of configs that Kafka Connect or Debezium reads.

They are run by the library `regex`: it knows more of Java's syntax than Python's `re`, and it can be stopped. It does
not limit how large a compiled expression is: it writes counted repetitions out, and needs four times as long for every
two repetitions inside of each other. So the size is computed before.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import regex

from fencepost.config.check import LONGEST_TOPIC, Check

MAX_SIZE = 100_000
MAX_DEPTH = 10
_EMPTY = 100  # a thousand groups with nothing in them, written out, take as long as a hundred thousand characters

_SIZED = re.compile(
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
        return f"more than {MAX_DEPTH} repetitions inside of each other: write fewer of them"
    if size > MAX_SIZE:
        return f"its repetitions, written out, have more than {MAX_SIZE} parts: use smaller counts in braces"
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
        token = _SIZED.match(pattern, at)
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


LONGEST_MATCH_S = 1.0  # no pattern that is meant for a name takes a thousandth of it

_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Space": r"\s",
    "XDigit": "0-9a-fA-F",
}
_TOKEN = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|$)"  # text taken literally
    r"|\\p\{(?P<cls>\w+)\}"  # a POSIX class
    r"|\\k<(?P<earlier>[a-zA-Z][a-zA-Z0-9]*)>"
    r"|\\(?P<escape>[pPNx]\{[^}]*\}|.)"
    r"|\(\?<(?P<group>[a-zA-Z][a-zA-Z0-9]*)>"
    r"|(?P<bracket>\[\^?\]?|\])"  # a bracket that closes is a character at the beginning of a class
    r"|(?P<operator>--|~~|\|\|)"  # of sets, in the library; Java takes them literally
    r"|(?P<repetition>\{(?!\d+(?:,\d*)?\}))",  # the library takes it literally; Java refuses it
    re.DOTALL,
)
_NAME_CHARACTERS = re.compile(r"[a-zA-Z0-9._-]")


def java_regex(*, is_empty_allowed: bool = True) -> Check:
    """Return the check that a text is a regular expression of Java, as far as Python supports it."""

    def test(value: str) -> str | None:
        if not value and not is_empty_allowed:
            return "String must be non-empty"
        try:
            _probe(compiled(value))
        except re.error as error:
            return f"Invalid regex: {error}"
        except SlowPatternError as error:
            return str(error)
        return None

    return Check(test, "valid regex")


class SlowPatternError(Exception):
    """A pattern takes too long for a text."""


class JavaPattern:
    """A pattern of Java, with methods of Python's patterns. They raise `slow_error` for a text that takes too long."""

    slow_error: ClassVar[type[Exception]] = SlowPatternError

    def __init__(self, pattern: str) -> None:
        """Raise re.error if the pattern is wrong, or if only Java supports it."""
        self.source = pattern
        try:
            self.pattern = _translated(pattern)
            if (fault := size_fault(self.pattern)) is not None:
                raise re.error(fault)
            self._compiled = regex.compile(self.pattern, regex.ASCII | regex.VERSION1)
        except (regex.error, RecursionError, ValueError, KeyError) as error:  # the last two: flags exclude each other
            raise re.error(str(error) or "it is nested too deeply") from None
        self.groups: int = self._compiled.groups
        self.groupindex: Mapping[str, int] = self._compiled.groupindex

    def fullmatch(self, text: str) -> re.Match[str] | None:
        found: re.Match[str] | None = self._timed(
            text, lambda: self._compiled.fullmatch(text, timeout=LONGEST_MATCH_S, concurrent=True)
        )
        return found

    def sub(self, replace: Callable[[re.Match[str]], str], text: str, count: int) -> str:
        found: str = self._timed(
            text, lambda: self._compiled.sub(replace, text, count=count, timeout=LONGEST_MATCH_S, concurrent=True)
        )
        return found

    def _timed(self, text: str, operation: Callable[[], Any]) -> Any:
        try:
            return operation()
        except TimeoutError:
            raise self.slow_error(
                f"The regular expression {self.source} takes more than {LONGEST_MATCH_S:g} s for {text[:80]!r}: avoid "
                "repetitions inside of repetitions, as in (a+)+"
            ) from None


@lru_cache(64)  # a pattern that passed is not tried again, however often its config is read
def _probe(pattern: JavaPattern) -> None:
    """Raise SlowPatternError if the longest names, each made of one of the pattern's own characters, take too long."""
    characters = "".join(sorted({*_NAME_CHARACTERS.findall(pattern.source), "a"}))
    for character in characters:
        pattern.fullmatch(f"{character * LONGEST_TOPIC}\n{characters}")  # the end has all that the pattern requires


@lru_cache(64)
def compiled(pattern: str) -> JavaPattern:
    """Return Java's pattern, compiled. Raises re.error if it is wrong, or only Java supports it."""
    return JavaPattern(pattern)


def _translated(pattern: str) -> str:
    depth = 0

    def translated(token: re.Match[str]) -> str:
        nonlocal depth
        if token["bracket"]:
            depth = max(0, depth + (1 if token["bracket"].startswith("[") else -1))
            return token[0]
        if token["repetition"]:
            if not depth:
                raise re.error("Illegal repetition; write the brace as \\{")
            return token[0]
        if token["operator"] == "--" and depth:
            raise re.error("-- in a class of characters is not supported here; write the hyphen as \\-")
        if token["operator"]:
            return "".join(f"\\{c}" for c in token[0]) if depth else token[0]
        if token["group"]:
            return token[0] if depth else f"(?P<{token['group']}>"
        if token["earlier"]:
            return token[0] if depth else f"(?P={token['earlier']})"
        if token["quoted"] is not None:
            return re.escape(token["quoted"])
        if (token["escape"] or "").startswith("x{"):
            return _character(token["escape"][2:-1])
        if token["cls"]:
            return _character_class(token[0], token["cls"], is_inside=depth > 0)
        return r"\Z" if token["escape"] == "z" and not depth else token[0]

    return _TOKEN.sub(translated, pattern)


def _character(digits: str) -> str:
    r"""Return the character that Java writes as `\x{61}`, which the library does not know."""
    try:
        return f"\\U{ord(chr(int(digits, 16))):08x}"
    except (ValueError, OverflowError):
        raise re.error(f"\\x{{{digits}}} is no character") from None


def _character_class(written: str, name: str, *, is_inside: bool) -> str:
    if name not in _CLASSES:
        return written  # a property of Unicode, which the library checks
    return _CLASSES[name] if is_inside else f"[{_CLASSES[name]}]"
