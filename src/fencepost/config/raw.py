"""A config as users write it."""

from collections.abc import Mapping

RawConfig = Mapping[str, str | None]
"""Keys and values as they were given: variables of config providers stay unresolved; None is refused by validation."""


def given_values(raw: RawConfig) -> dict[str, str]:
    """Return the properties that have a value."""
    return {key: value for key, value in raw.items() if value is not None}


def names_in(text: str | None) -> list[str]:
    """Return the entries of a list with commas, as a property has it: without spaces around them, and no empty ones."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]
