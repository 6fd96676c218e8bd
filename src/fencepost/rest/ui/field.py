"""A form for a connector's config, made of what validation says: groups of fields, with their errors."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.secret.redaction import HIDDEN

Config = Mapping[str, str | None]

PREFIX = "c."
"""What the names of a form's fields for keys begin with."""

MORE = "more"
SENT = "sent"
"""The field of a new connector's form that was sent once: from then on it says what is missing, too."""
NAME, CLASS = "name", "connector.class"
NAME_FIELD = PREFIX + NAME
_OWN = (NAME, CLASS)
AGAIN = "[type it again]"
"""What stands for a secret that was typed into a form which was not stored: no page shows it."""

_LINE = re.compile(r"\s*([^=\s]+)\s*=\s?(.*)")
_BACKSLASHES = re.compile(r"\\*\Z")


@dataclass(frozen=True, slots=True)
class Field:
    """A key of a config: what validation declares (`key`) and says of its value, and what a form shows of that.

    A secret that `is_kept` is stored. One that `is_lost` was typed and is not stored, so it has to be typed again.
    """

    key: Mapping[str, Any]
    value: str
    errors: Sequence[str]
    recommended: Sequence[str]
    is_secret: bool
    is_kept: bool
    is_lost: bool = False

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
        return is_plain and not (self.value or self.is_kept or self.is_lost or self.errors)


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


@dataclass(frozen=True, slots=True)
class Sent:
    """What a form holds: its config, `unread` lines of other keys, and the `faults` that keep it from being stored.

    A form that `is_begun` was not sent yet: nothing is said of values that are missing.
    """

    config: dict[str, str | None]
    unread: Sequence[str] = ()
    faults: Sequence[str] = ()
    is_begun: bool = False


def config_form(
    report: Mapping[str, Any], config: Config, secrets: Iterable[str], stored: Config, unread: Sequence[str] = ()
) -> ConfigForm:
    """Return the form for a config, and validation's report of it. Values of `secrets` are not in it.

    `unread` are lines of other keys, which come back as they were sent.
    """
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
            groups.setdefault(name, Group(name)).fields.append(_field(key, value, config, hidden, stored))
    for group in groups.values():
        group.fields.sort(key=lambda each: (each.key["order_in_group"] < 0, each.key["order_in_group"]))
    more = {
        key: (HIDDEN if value == stored.get(key) else AGAIN) if key in hidden else value or ""
        for key, value in config.items()
        if key not in declared
    }
    lines = "".join(f"{line}\n" for line in (*(_line(key, value) for key, value in more.items()), *unread))
    warnings = [warning["message"] for warning in report.get("warnings", ())]
    return ConfigForm(_ordered(groups, report["groups"]), lines, faults, warnings)


def without_missing(report: Mapping[str, Any], config: Config) -> tuple[dict[str, Any], list[str]]:
    """Return validation's report without errors of keys that have no value yet, and these keys.

    A form that somebody has only begun to fill in is not wrong.
    """
    missing = [
        one["value"]["name"]
        for one in report["configs"]
        if one["value"]["errors"] and not config.get(one["value"]["name"])
    ]
    found = [
        {**one, "value": {**one["value"], "errors": []}} if one["value"]["name"] in missing else one
        for one in report["configs"]
    ]
    return {**report, "configs": found}, missing


def sent_config(fields: Mapping[str, str], stored: Config) -> Sent:
    """Return what a form holds. What it hides, and what is empty as before, stays as it is stored."""
    found: dict[str, str | None] = {}
    again: list[str] = []
    for name, value in fields.items():
        key = name.removeprefix(PREFIX)
        if key == name:
            continue
        if value:
            found[key] = value.replace("\r\n", "\n")
        elif fields.get(f"again.{key}"):
            again.append(key)
        elif key in stored and (fields.get(f"kept.{key}") or not stored[key]):
            found[key] = stored[key]
    lines, faults, unread = _lines(fields.get(MORE, ""))
    again += [key for key, value in lines if value == AGAIN]
    found |= {key: stored.get(key) if value == HIDDEN else value for key, value in lines}
    faults += [f"{key}: type this secret again; no page shows what was typed" for key in again]
    return Sent(found, unread, faults)


def _field(key: Mapping[str, Any], value: Mapping[str, Any], config: Config, hidden: set[str], stored: Config) -> Field:
    name = key["name"]
    is_secret = key["type"] == "PASSWORD" or name in hidden
    given = config.get(name) or ""
    return Field(
        key,
        "" if is_secret else given,
        value["errors"],
        value["recommended_values"],
        is_secret,
        is_secret and bool(given) and given == stored.get(name),
        is_secret and bool(given) and given != stored.get(name),
    )


def _ordered(groups: Mapping[str, Group], names: Sequence[str]) -> list[Group]:
    """Return the groups with something that has to be filled in first; otherwise as validation orders them."""
    order = {name: number for number, name in enumerate(names)}
    return sorted(groups.values(), key=lambda group: (not group.basic, order.get(group.name, len(order))))


def _lines(text: str) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Return keys and values, what is wrong with the others, and these as they were sent."""
    pairs, faults, unread = [], [], []
    for number, line in _joined(text.replace("\r\n", "\n").split("\n")):
        found = _LINE.fullmatch(line.partition("\n")[0])
        if found is not None:
            pairs.append((found[1], "\n".join([found[2], *line.split("\n")[1:]])))
        elif line.strip():
            faults.append(f"Line {number} of the other keys is not key=value")
            unread.append(_ended(line))
    return pairs, faults, unread


def _joined(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers: one that ends with a backslash goes on in the next; two there stand for one."""
    first, held = 0, ""
    for number, line in enumerate(lines, start=1):
        first = first or number
        slashes = len(_BACKSLASHES.search(line)[0])  # type: ignore[index]
        held += line[: len(line) - (slashes + 1) // 2]
        if slashes % 2:
            held += "\n"
            continue
        yield first, held
        first, held = 0, ""
    if first:
        yield first, held.removesuffix("\n")


def _line(key: str, value: str) -> str:
    return f"{key}={' ' if value[:1].isspace() else ''}{_ended(value)}"


def _ended(value: str) -> str:
    return "\\\n".join(_BACKSLASHES.sub(lambda found: 2 * found[0], part, count=1) for part in value.split("\n"))
