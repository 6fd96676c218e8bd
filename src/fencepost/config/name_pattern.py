"""Which names are meant: the shorter names of plug-ins' classes, and patterns of connectors' names."""

from fnmatch import fnmatchcase


def answers_to(full: str, name: str, suffix: str) -> bool:
    """Say whether a config may call a class `name`: in full, without its package, or without `suffix` as well.

    These are Kafka Connect's aliases. `suffix` is that of the plug-in's kind, such as `Connector`.
    """
    short = full.rpartition(".")[2]
    return name in (full, short, short.removesuffix(suffix))


def matches(name: str, pattern: str) -> bool:
    """Say whether a name matches: `*` stands for any characters, `?` for one. Brackets are themselves."""
    return fnmatchcase(name, pattern.replace("[", "[[]"))
