"""A form for a connector's config, made of what validation says: groups of fields, with their errors."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.telemetry.secret import HIDDEN

Config = Mapping[str, str | None]

PREFIX = "c."
"""What the names of a form's fields for keys begin with."""

MORE = "more"
NAME, CLASS = "name", "connector.class"
_OWN = (NAME, CLASS)
_LINE = re.compile(r"\s*([^=\s]+)\s*=\s?(.*)")


@dataclass(frozen=True, slots=True)
class Field:
    """A key of a config: what validation declares (`key`) and says of its value, and what a form shows of that."""

    key: Mapping[str, Any]
    value: str
    errors: Sequence[str]
    recommended: Sequence[str]
    is_secret: bool
    is_kept: bool

    @property
    def name(self) -> str:
        return str(self.key["name"])

    @property
    def id(self) -> str:
        return "f-" + "".join(char if char.isalnum() else f"-{ord(char):x}-" for char in self.name)

    @property
    def is_long(self) -> bool:
        """Return whether its value needs more than a line."""
        return "\n" in self.value or len(self.value) > 90

    @property
    def is_advanced(self) -> bool:
        """Return whether it is folded away: nobody has to look at it."""
        is_plain = self.key["importance"] != "HIGH" and not self.key["required"]
        return is_plain and not (self.value or self.is_kept or self.errors)


@dataclass(slots=True)
class Group:
    """Fields that belong together."""

    name: str
    fields: list[Field] = field(default_factory=list)

    @property
    def basic(self) -> list[Field]:
        return [one for one in self.fields if not one.is_advanced]

    @property
    def advanced(self) -> list[Field]:
        return [one for one in self.fields if one.is_advanced]


@dataclass(frozen=True, slots=True)
class ConfigForm:
    """`more` has the lines of keys that nothing declares, and `faults` what is wrong with them."""

    groups: Sequence[Group]
    more: str
    faults: Sequence[str]
    warnings: Sequence[str]

    @property
    def fields(self) -> list[Field]:
        return [one for group in self.groups for one in group.fields]

    @property
    def errors(self) -> int:
        return sum(len(one.errors) for one in self.fields) + len(self.faults)


def config_form(report: Mapping[str, Any], config: Config, secrets: Iterable[str]) -> ConfigForm:
    """Return the form for a config, and validation's report of it. Values of `secrets` are not in it."""
    hidden, own = set(secrets), (config.get(CLASS) or "").rpartition(".")[2]
    groups: dict[str, Group] = {}
    faults: list[str] = []
    declared = {*_OWN}
    for one in report["configs"]:
        key, value = one["definition"], one["value"]
        if value["name"] in _OWN:
            faults += value["errors"]
            continue
        if key is None:
            faults += value["errors"]
            continue
        declared.add(key["name"])
        if value["visible"] or key["name"] in config or value["errors"]:
            name = key["group"] or own
            groups.setdefault(name, Group(name)).fields.append(_field(key, value, config, hidden))
    for group in groups.values():
        group.fields.sort(key=lambda each: (each.key["order_in_group"] < 0, each.key["order_in_group"]))
    more = {key: HIDDEN if key in hidden else value or "" for key, value in config.items() if key not in declared}
    lines = "".join(f"{key}={_continued(value)}\n" for key, value in more.items())
    warnings = [warning["message"] for warning in report.get("warnings", ())]
    return ConfigForm(_ordered(groups, report["groups"]), lines, faults, warnings)


def sent_config(fields: Mapping[str, str], stored: Config) -> dict[str, str | None]:
    """Return the config that a form holds. What it hides, and what is empty as before, stays as it is stored.

    Raises ValueError for a line of other keys that is not `key=value`.
    """
    found: dict[str, str | None] = {}
    for name, value in fields.items():
        key = name.removeprefix(PREFIX)
        if key == name:
            continue
        if value:
            found[key] = value.replace("\r\n", "\n")
        elif key in stored and (fields.get(f"kept.{key}") or not stored[key]):
            found[key] = stored[key]
    for key, value in _lines(fields.get(MORE, "")):
        found[key] = stored.get(key) if value == HIDDEN else value
    return found


def _field(key: Mapping[str, Any], value: Mapping[str, Any], config: Config, hidden: set[str]) -> Field:
    name = key["name"]
    is_secret = key["type"] == "PASSWORD" or name in hidden
    given = config.get(name) or ""
    return Field(
        key,
        "" if is_secret else given,
        value["errors"],
        value["recommended_values"],
        is_secret,
        is_secret and bool(given),
    )


def _ordered(groups: Mapping[str, Group], names: Sequence[str]) -> list[Group]:
    """Return the groups with something that has to be filled in first; otherwise as validation orders them."""
    order = {name: number for number, name in enumerate(names)}
    return sorted(groups.values(), key=lambda group: (not group.basic, order.get(group.name, len(order))))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\\\n", "\0").split("\n"), start=1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"Line {number} of the other keys is not key=value")
        yield found[1], found[2].replace("\0", "\n")


def _continued(value: str) -> str:
    return value.replace("\n", "\\\n")
