"""A config as users write it, and the references to config providers in its values, `${provider:path:key}`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

RawConfig = Mapping[str, str | None]
"""Keys and values as they were given: variables of config providers stay unresolved; None is refused by validation."""


def given_values(raw: RawConfig) -> dict[str, str]:
    """Return the properties that have a value."""
    return {key: value for key, value in raw.items() if value is not None}


def names_in(text: str | None) -> list[str]:
    """Return the entries of a list with commas, as a property has it: without spaces around them, and no empty ones."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]


_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
"""As Kafka reads them. `${topic}` and other placeholders have no colon."""

_PLACEHOLDER = re.compile(r"^\$\{[^}]*\}$")

_SPARK = "spark."
_OF_SPARK = frozenset({"env", "system", "spark", "sparkconf", "hivevar", "hiveconf"})  # it looks them up itself


@dataclass(frozen=True)
class Reference:
    """One reference: `text` as it is written."""

    text: str
    provider: str
    path: str
    key: str

    def shown_in(self, value: str) -> str:
        """Return a text for users: the reference if it is the entire value, else only its provider (E11)."""
        return self.text if self.text == value.strip() else f"${{{self.provider}:…}}"


def is_placeholder(value: str) -> bool:
    """Say whether a value is nothing but a reference or another placeholder, so that it may be shown."""
    return _PLACEHOLDER.match(value) is not None


def references(key: str, value: object) -> Iterator[Reference]:
    """Yield the references in a value. In settings of Spark, those that Spark itself looks up are none."""
    if not isinstance(value, str) or "${" not in value:
        return
    for found in _REFERENCE.finditer(value):
        if not (key.startswith(_SPARK) and found[1] in _OF_SPARK):
            yield Reference(found[0], found[1], found[2] or "", found[3])


def has_references(config: Mapping[str, object]) -> bool:
    """Say whether any value of a config refers to a config provider."""
    return any(True for key, value in config.items() for _ in references(key, value))


def replaced(key: str, value: str, found: Mapping[str, str]) -> str:
    """Return a value with the references that `found` has, by their texts, replaced."""
    wanted = {one.text for one in references(key, value)}
    return _REFERENCE.sub(lambda one: found.get(one[0], one[0]) if one[0] in wanted else one[0], value)
