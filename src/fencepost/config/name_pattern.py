"""Patterns of connectors' names, in roles and on the command line."""

from fnmatch import fnmatchcase


def matches(name: str, pattern: str) -> bool:
    """Say whether a name matches: `*` stands for any characters, `?` for one. Brackets are themselves."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))
