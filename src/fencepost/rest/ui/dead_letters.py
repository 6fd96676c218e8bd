"""`/ui/connectors/C/dead-letters`: the records that it could not process, and their resend, after a question."""

import asyncio
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.glance import figures_of
from fencepost.cluster.topic_records import RUNNING
from fencepost.config.connector import DeadLetterConfig, SinkChoice
from fencepost.rest.path import ConnectorName
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.visit import Visit, Visiting

router = APIRouter(prefix="/ui/connectors/{name}/dead-letters", include_in_schema=False)

_TOPIC = DeadLetterConfig.key_of("dead_letters_topic")
_RESEND = SinkChoice.key_of("resend_topic")
_MOST = 25
ALL, SELECTED, SKIPPED = "all", "selected", "skipped"


@router.get("")
async def show_dead_letters(name: ConnectorName, visit: Visiting) -> Response:
    """Show how many there were since the tasks started; to those who may see them, the newest ones."""
    return await _page(visit, name)


@router.get("/progress")
async def show_progress(name: ConnectorName, visit: Visiting) -> Response:
    """Answer with the progress of a resend alone; the browser asks again until it has ended."""
    resend = await visit.get(path_of("connectors", name, "dead-letters", "resend"))
    is_running = resend["state"] in RUNNING
    content = {"name": name, "resend": resend, "is_running": is_running, "is_new": not is_running}
    return visit.piece("dead_letters_progress.html", **content)


@router.post("/confirm")
async def ask_to_resend(name: ConnectorName, visit: Visiting) -> Response:
    """Ask whether it is meant; nothing is sent."""
    fields = await visit.form()
    wanted, letters = fields.get("what", ""), _letters(fields)
    if wanted not in (ALL, SELECTED, SKIPPED) or (wanted != ALL and not letters):
        return await _page(visit, name, is_unselected=True)
    info = await visit.get(path_of("connectors", name))
    content: dict[str, Any] = {"name": name, "what": wanted, "letters": letters, **_topics(info["config"])}
    return visit.page("dead_letters_confirm.html", title=f"Resend {name}", tab="dead-letters", **content)


@router.post("/resend")
async def resend(name: ConnectorName, visit: Visiting) -> Response:
    """Begin what was confirmed."""
    fields = await visit.form()
    wanted, letters = fields.get("what", ""), _letters(fields)
    body: dict[str, Any] = {} if wanted == ALL else {"letters": letters}
    if wanted == SKIPPED:
        body["skip"] = letters
    answer = await visit.send("POST", path_of("connectors", name, "dead-letters", "resend"), body)
    return visit.done(answer, path_of("ui", "connectors", name, "dead-letters"))


async def _page(visit: Visit, name: str, *, is_unselected: bool = False) -> Response:
    info = await visit.get(path_of("connectors", name))
    topics = _topics(info["config"])
    is_listed = bool(topics["topic"]) and visit.may("operate", name)
    given, found = await asyncio.gather(  # what asks other workers, or Kafka
        visit.maybe_get(path_of("connectors", name, "figures")), _found(visit, name, is_listed=is_listed)
    )
    figures = figures_of({"figures": given})
    base = str(visit.request.base_url).rstrip("/")
    content = {
        "name": name,
        "tab": "dead-letters",
        "topic_key": _TOPIC,
        "resend_key": _RESEND,
        "is_sink": info["type"] == "sink",
        "known": sum(task.get("dead_letters_total") or 0 for task in figures) if figures else None,
        "command": f"fencepost dead-letters {shlex.quote(name)} --url {shlex.quote(base)}",
        "is_unselected": is_unselected,
        **topics,
    }
    return visit.page("dead_letters.html", title=f"Dead letters of {name}", **content, **found)


async def _found(visit: Visit, name: str, *, is_listed: bool) -> dict[str, Any]:
    if not is_listed:
        return {"is_listed": False}
    before = visit.request.query_params.get("before")
    query = {"limit": _MOST} if before is None else {"limit": _MOST, "before": before}
    answer, progress = await asyncio.gather(
        visit.send("GET", path_of("connectors", name, "dead-letters"), **query),
        visit.maybe_get(path_of("connectors", name, "dead-letters", "resend")),
    )
    resend = progress or {"state": "none"}
    page = answer.content if answer.is_success else {"letters": [], "older": None, "unnamed": 0}
    return {
        "is_listed": True,
        "fault": None if answer.is_success else answer.message,
        "letters": page["letters"],
        "unnamed": page["unnamed"],
        "older": None if page["older"] is None else urlencode({"before": page["older"]}),
        "is_newest": before is None,
        "resend": resend,
        "is_running": resend["state"] in RUNNING,
        "is_new": False,
    }


def _topics(config: Mapping[str, Any]) -> dict[str, str]:
    return {"topic": (config.get(_TOPIC) or "").strip(), "resend_topic": (config.get(_RESEND) or "").strip()}


def _letters(fields: Mapping[str, str]) -> list[str]:
    return [place for field, place in fields.items() if field.startswith("letter.")]
