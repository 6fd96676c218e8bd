"""Regular expressions and replacements as Java writes them."""

import re
from collections.abc import Callable

from fencepost.config.check import Check

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
    r"|\\(?P<escape>.)"
    r"|\(\?<(?P<group>[a-zA-Z][a-zA-Z0-9]*)>"
    r"|(?P<bracket>[\[\]])",
    re.DOTALL,
)
_REFERENCE = re.compile(r"\\(?P<literal>.)|\$(?P<number>\d+)|\$\{(?P<name>\w+)\}|(?P<wrong>[\\$])", re.DOTALL)


def java_regex() -> Check:
    """Return the check that a text is a regular expression of Java, as far as Python supports it."""

    def test(value: str) -> str | None:
        try:
            compiled(value)
        except re.error as error:
            return f"Invalid regex: {error}"
        return None

    return Check(test, "valid regex")


def compiled(pattern: str) -> re.Pattern[str]:
    """Return Java's pattern as Python's. Raises re.error if it is wrong, or only Java supports it."""
    depth = 0

    def translated(token: re.Match[str]) -> str:
        nonlocal depth
        if token["bracket"]:
            depth = max(0, depth + (1 if token["bracket"] == "[" else -1))
            return token[0]
        if token["group"]:
            return token[0] if depth else f"(?P<{token['group']}>"
        if token["quoted"] is not None:
            return re.escape(token["quoted"])
        if token["cls"]:
            return _character_class(token["cls"], is_inside=depth > 0)
        return r"\Z" if token["escape"] == "z" and not depth else token[0]

    return re.compile(_TOKEN.sub(translated, pattern), re.ASCII)


def replacer(pattern: re.Pattern[str], replacement: str) -> Callable[[re.Match[str]], str]:
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


def _reference(pattern: re.Pattern[str], found: re.Match[str]) -> list[str | int]:
    if found["literal"] is not None:
        return [found["literal"]]
    if found["name"]:
        if found["name"] not in pattern.groupindex:
            raise ValueError(f"No group with name {{{found['name']}}}")
        return [pattern.groupindex[found["name"]]]
    if found["wrong"]:
        raise ValueError("Illegal group reference")
    return _numbered(pattern, found["number"])


def _numbered(pattern: re.Pattern[str], digits: str) -> list[str | int]:
    """Return the number of a group: like Java, use as many digits as name an existing group, and at least one."""
    length = 1
    while length < len(digits) and int(digits[: length + 1]) <= pattern.groups:
        length += 1
    group = int(digits[:length])
    if group > pattern.groups:
        raise ValueError(f"No group {group}")
    return [group, digits[length:]]


def _character_class(name: str, *, is_inside: bool) -> str:
    if name not in _CLASSES:
        raise re.error(f"\\p{{{name}}} is not supported here; use a range such as [a-z]")
    return _CLASSES[name] if is_inside else f"[{_CLASSES[name]}]"
