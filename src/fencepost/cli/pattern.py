"""Patterns of connectors' names on the command line."""

from fnmatch import fnmatchcase


def matches(name: str, pattern: str) -> bool:
    """Say whether a name matches: `*` stands for any characters, `?` for one. Brackets are themselves, as in roles."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))
