"""A config as users write it."""

from collections.abc import Mapping

RawConfig = Mapping[str, str | None]
"""Keys and values as they were given: variables of config providers stay unresolved; None is refused by validation."""
