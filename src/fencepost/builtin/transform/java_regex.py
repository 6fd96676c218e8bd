"""Patterns of Java for records, and replacements as Java writes them."""

import re
from collections.abc import Callable
from functools import lru_cache

from fencepost.api import RecordError
from fencepost.config import java_regex

_REFERENCE = re.compile(r"\\(?P<literal>.)|\$(?P<number>\d+)|\$\{(?P<name>\w+)\}|(?P<wrong>[\\$])", re.DOTALL)


class JavaPattern(java_regex.JavaPattern):
    """A pattern whose methods raise RecordError for a text that takes too long."""

    slow_error = RecordError


@lru_cache(64)
def compiled(pattern: str) -> JavaPattern:
    """Return Java's pattern, compiled. Raises re.error if it is wrong, or only Java supports it."""
    return JavaPattern(pattern)


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
    """Return the faults of the replacement in a setting; the pattern must be right."""
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
