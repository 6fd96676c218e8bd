"""`/ui/new` and the config of a connector: shown without its secrets, checked, changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.builtin.java.install.known import search
from fencepost.config import ConfigError
from fencepost.plugin import PluginKind
from fencepost.plugin.about import summary
from fencepost.plugin.process import registry
from fencepost.plugin.secret_keys import secret_keys, undecided_keys
from fencepost.rest.gateway import Gateway, Worker
from fencepost.rest.path import ConnectorName
from fencepost.rest.ui.field import (
    CLASS,
    NAME,
    NAME_FIELD,
    SENT,
    Config,
    Sent,
    config_form,
    sent_config,
    without_missing,
)
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.visit import Visit, Visiting
from fencepost.secret.redaction import HIDDEN


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
