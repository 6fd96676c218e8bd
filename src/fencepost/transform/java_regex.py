"""Regular expressions and replacements as Java writes them.

They are run by the library `regex`: it knows more of Java's syntax than Python's `re`, and it can be stopped.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import regex

from fencepost.api import RecordError
from fencepost.config.check import Check
from fencepost.transform.pattern_size import size_fault

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
    r"|\\(?P<escape>[pPNx]\{[^}]*\}|.)"
    r"|\(\?<(?P<group>[a-zA-Z][a-zA-Z0-9]*)>"
    r"|(?P<bracket>\[\^?\]?|\])"  # a bracket that closes is a character at the beginning of a class
    r"|(?P<operator>--|~~|\|\|)"  # of sets, in the library; Java takes them literally
    r"|(?P<repetition>\{(?!\d+(?:,\d*)?\}))",  # the library takes it literally; Java refuses it
    re.DOTALL,
)
_NAME_CHARACTERS, _LONGEST_NAME = re.compile(r"[a-zA-Z0-9._-]"), 249
_REFERENCE = re.compile(r"\\(?P<literal>.)|\$(?P<number>\d+)|\$\{(?P<name>\w+)\}|(?P<wrong>[\\$])", re.DOTALL)


def java_regex(*, is_empty_allowed: bool = True) -> Check:
    """Return the check that a text is a regular expression of Java, as far as Python supports it."""

    def test(value: str) -> str | None:
        if not value and not is_empty_allowed:
            return "String must be non-empty"
        try:
            _probe(compiled(value))
        except re.error as error:
            return f"Invalid regex: {error}"
        except RecordError as error:
            return str(error)
        return None

    return Check(test, "valid regex")


class JavaPattern:
    """A pattern of Java, with methods of Python's patterns. They raise RecordError for a text that takes too long."""

    def __init__(self, pattern: str) -> None:
        """Raise re.error if the pattern is wrong, or if only Java supports it."""
        self.source = pattern
        try:
            self.pattern = _translated(pattern)
            if (fault := size_fault(self.pattern)) is not None:
                raise re.error(fault)
            self._compiled = regex.compile(self.pattern, regex.ASCII | regex.VERSION1)
        except (regex.error, RecursionError, ValueError) as error:  # ValueError: flags that exclude each other
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
            raise RecordError(
                f"The regular expression {self.source} takes more than {LONGEST_MATCH_S:g} s for {text[:80]!r}: avoid "
                "repetitions inside of repetitions, as in (a+)+"
            ) from None


@lru_cache(64)  # a pattern that passed is not tried again, however often its config is read
def _probe(pattern: JavaPattern) -> None:
    """Raise RecordError if the longest names of a topic, made of one of the pattern's own characters, take too long."""
    characters = "".join(sorted({*_NAME_CHARACTERS.findall(pattern.source), "a"}))
    for character in characters:
        pattern.fullmatch(f"{character * _LONGEST_NAME}\n{characters}")  # the end has all that the pattern requires


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
        if token["quoted"] is not None:
            return re.escape(token["quoted"])
        if (token["escape"] or "").startswith("x{"):
            return _character(token["escape"][2:-1])
        if token["cls"]:
            return _character_class(token[0], token["cls"], is_inside=depth > 0)
        return r"\Z" if token["escape"] == "z" and not depth else token[0]

    return _TOKEN.sub(translated, pattern)


def replacer(pattern: JavaPattern, replacement: str) -> Callable[[re.Match[str]], str]:
    r"""Return the replacement of a match by `Matcher.replaceFirst`, with `$1`, `${name}` and `\$`.

    Raises ValueError for a group that the pattern does not have.
    """
    parts: list[str | int] = []
    end = 0
    for found in _REFERENCE.finditer(replacement):
        parts.append(replacement[end : found.start()])
        parts.extend(_reference(pattern, found))
        end = found.end()
    parts.append(replacement[end:])
    return lambda match: "".join(part if isinstance(part, str) else (match[part] or "") for part in parts)


def replacement_faults(key: str, pattern: str, replacement: str) -> list[str]:
    """Return what is wrong with the replacement in a setting; the pattern must be right."""
    try:
        replacer(compiled(pattern), replacement)
    except ValueError as error:
        return [f"Invalid value {replacement} for configuration {key}: {error}"]
    return []


def _reference(pattern: JavaPattern, found: re.Match[str]) -> list[str | int]:
    if found["literal"] is not None:
        return [found["literal"]]
    if found["name"]:
        if found["name"] not in pattern.groupindex:
            raise ValueError(f"No group with name {{{found['name']}}}")
        return [pattern.groupindex[found["name"]]]
    if found["wrong"]:
        raise ValueError("Illegal group reference")
    return _numbered(pattern, found["number"])


def _numbered(pattern: JavaPattern, digits: str) -> list[str | int]:
    """Return the number of a group: like Java, use as many digits as name an existing group, and at least one."""
    length = 1
    while length < len(digits) and int(digits[: length + 1]) <= pattern.groups:
        length += 1
    group = int(digits[:length])
    if group > pattern.groups:
        raise ValueError(f"No group {group}")
    return [group, digits[length:]]


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
