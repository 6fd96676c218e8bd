"""`/ui/new` and the config of a connector: shown without its secrets, checked, changed.

The form is made of what validation says: groups of fields, with their errors.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.builtin.java.install.known import search
from fencepost.config import ConfigError
from fencepost.plugin import PluginKind, registry
from fencepost.plugin.installed import summary
from fencepost.plugin.secret_keys import secret_keys, undecided_keys
from fencepost.rest.gateway import Gateway, Worker
from fencepost.rest.path import ConnectorName
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.visit import Visit, Visiting
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


async def hidden_keys(gateway: Gateway, config: Mapping[str, str | None]) -> set[str]:
    """Return the keys whose values no page shows. On a thread: it may have to import the connector's class."""
    return await gateway.run(lambda: secret_keys(config) | undecided_keys(config))


def shown(config: Mapping[str, str | None], hidden: set[str]) -> dict[str, str]:
    """Return a config, as REST shows it, as a page shows it: sorted by key."""
    return {key: HIDDEN if key in hidden else value or "" for key, value in sorted(config.items())}


@dataclass(frozen=True, slots=True)
class Tile:
    """An installed connector; `about` is empty if its class says nothing, as Java's."""

    plugin: str
    kind: str
    version: str | None
    about: str

    @property
    def name(self) -> str:
        return self.plugin.rpartition(".")[2]


def summaries() -> dict[str, str]:
    """Return what each connector in Python does, by full name. On a thread: it imports their classes."""
    plugins, found = registry(), {}
    for name in plugins.python_names(PluginKind.CONNECTOR):
        try:
            found[name] = summary(plugins.find(PluginKind.CONNECTOR, name))
        except ConfigError:
            continue
    return found


def tiles(plugins: Iterable[Mapping[str, Any]], about: Mapping[str, str]) -> list[Tile]:
    """Return a tile for each entry of `GET /connector-plugins`, sorted by name."""
    found = [Tile(one["class"], one["type"], one.get("version"), about.get(one["class"], "")) for one in plugins]
    return sorted(found, key=lambda tile: tile.name.casefold())


def installable(text: str, installed: Iterable[Tile]) -> list[tuple[str, str]]:
    """Return known connectors that are not installed and have the text in their names, with what installs each."""
    there = {tile.plugin for tile in installed}
    return [(name, plugin.plain_command) for name, plugin in search(text) if name not in there]


def chosen(found: Iterable[Tile], text: str) -> list[Tile]:
    """Return the tiles that have each word of the text in the class or in what it does."""
    words = text.casefold().split()
    return [tile for tile in found if all(word in f"{tile.plugin} {tile.about}".casefold() for word in words)]


router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/connectors/{name}/config")
async def show_config(name: ConnectorName, visit: Visiting, worker: Worker) -> Response:
    """Show the config without its secrets."""
    config = await visit.get(path_of("connectors", name, "config"))
    content = shown(config, await hidden_keys(worker, config))
    return visit.page("config.html", title=f"Config of {name}", name=name, tab="config", config=content)


@router.get("/connectors/{name}/edit")
async def edit_config(name: ConnectorName, visit: Visiting, worker: Worker) -> Response:
    """Answer with a form that has the config."""
    stored = await visit.get(path_of("connectors", name, "config"))
    return await _form_page(visit, worker, Sent(stored), stored, name)


@router.post("/connectors/{name}/edit/check")
async def check_config(name: ConnectorName, visit: Visiting, worker: Worker) -> Response:
    """Say what is wrong with a config; nothing is stored."""
    stored = await visit.get(path_of("connectors", name, "config"))
    sent = sent_config(await visit.form() | {NAME_FIELD: name}, stored)
    return await _checked(visit, worker, sent, stored, name)


@router.post("/connectors/{name}/edit")
async def save_config(name: ConnectorName, visit: Visiting, worker: Worker) -> Response:
    """Store a config, or say what is wrong with it."""
    stored = await visit.get(path_of("connectors", name, "config"))
    sent = sent_config(await visit.form() | {NAME_FIELD: name}, stored)
    if sent.faults:
        return await _form_page(visit, worker, sent, stored, name, "; ".join(sent.faults), status=400)
    answer = await visit.send("PUT", path_of("connectors", name, "config"), sent.config)
    if answer.is_success:
        return visit.done(answer, path_of("ui", "connectors", name))
    return await _form_page(visit, worker, sent, stored, name, answer.message, status=answer.status)


@router.get("/new")
async def choose_plugin(visit: Visiting, worker: Worker) -> Response:
    """Answer with the connectors that are installed, or with an empty form for one of them."""
    query = visit.request.query_params
    plugin = query.get("plugin")
    if plugin is None:
        kinds = await worker.run(worker.operations.plugins.kinds)
        plugins = [
            one | {"type": kinds.get(one["class"], one["type"])} for one in await visit.get("/connector-plugins")
        ]
        found = tiles(plugins, await worker.run(summaries))
        text = query.get("q", "").strip()
        content: dict[str, Any] = {"tiles": chosen(found, text), "text": text, "others": installable(text, found)}
        return visit.page("choose.html", title="New connector", **content)
    return await _form_page(visit, worker, Sent({CLASS: plugin}, is_begun=True), {})


@router.post("/new/check")
async def check_new(visit: Visiting, worker: Worker) -> Response:
    """Say what is wrong with the config of a new connector; nothing is stored."""
    fields = await visit.form()
    sent = replace(sent_config(fields, {}), is_begun=SENT not in fields)
    return await _checked(visit, worker, sent, {}, None)


@router.post("/new")
async def create(visit: Visiting, worker: Worker) -> Response:
    """Create a connector, or say what is wrong with it."""
    sent = sent_config(await visit.form(), {})
    name = (sent.config.get(NAME) or "").strip()
    faults = [*sent.faults, *([] if name else ["A connector needs a name"])]
    if faults:
        return await _form_page(visit, worker, sent, {}, None, "; ".join(faults), status=400)
    answer = await visit.send("POST", "/connectors", {"name": name, "config": sent.config | {NAME: name}})
    if answer.is_success:
        return visit.done(answer, path_of("ui", "connectors", name))
    return await _form_page(visit, worker, sent, {}, None, answer.message, status=answer.status)


async def _checked(visit: Visit, worker: Worker, sent: Sent, stored: Config, name: str | None) -> Response:
    fault = "; ".join(sent.faults) or None
    if visit.request.headers.get("hx-request") == "true":
        return visit.piece("errors.html", **await _content(visit, worker, sent, stored, name, fault))
    return await _form_page(visit, worker, sent, stored, name, fault, is_checked=True)


async def _form_page(
    visit: Visit,
    worker: Worker,
    sent: Sent,
    stored: Config,
    name: str | None = None,
    fault: str | None = None,
    *,
    status: int = 200,
    is_checked: bool = False,
) -> Response:
    content = await _content(visit, worker, sent, stored, name, fault)
    title = "New connector" if name is None else f"Edit {name}"
    return visit.page("form.html", title=title, status=status, is_checked=is_checked, **content)


async def _content(
    visit: Visit, worker: Worker, sent: Sent, stored: Config, name: str | None, fault: str | None
) -> dict[str, Any]:
    config = sent.config
    plugin = config.get(CLASS) or ""
    report = await visit.change("PUT", path_of("connector-plugins", plugin, "config", "validate"), config)
    report, missing = without_missing(report, config) if sent.is_begun else (report, [])
    form = config_form(report, config, await hidden_keys(worker, config), stored, sent.unread)
    return {
        "form": form,
        "missing": missing,
        "is_sent": name is None and not sent.is_begun,
        "name": name,
        "given_name": config.get(NAME) or "",
        "plugin": plugin,
        "fault": fault,
        "here": "/ui/new" if name is None else path_of("ui", "connectors", name, "edit"),
    }
