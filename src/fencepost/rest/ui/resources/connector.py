"""`/ui/connectors/C`: a connector and its tasks."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.glance import (
    connector_word,
    delivery_word,
    figures_of,
    kind_word,
    task_words,
    why_not_exactly_once,
)
from fencepost.rest.path import ConnectorName
from fencepost.rest.ui import plot
from fencepost.rest.ui.digest import digest
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.visit import Visit, Visiting

router = APIRouter(prefix="/ui/connectors/{name}", include_in_schema=False)


@router.get("")
async def show_connector(name: ConnectorName, visit: Visiting) -> Response:
    """Answer with the whole page."""
    content = await _live(name, visit)
    topics = (await visit.maybe_get(path_of("connectors", name, "topics")) or {}).get(name, {}).get("topics", [])
    gaps = (await visit.maybe_get(path_of("connectors", name, "gaps")) or {}).get("gaps", [])
    retention = [one for one in (await visit.maybe_get("/retention") or {}).get("topics", ()) if one["topic"] in topics]
    return visit.page(
        "connector.html", title=name, tab="", topics=sorted(topics), gaps=gaps, retention=retention, **content
    )


@router.get("/live")
async def show_live(name: ConnectorName, visit: Visiting) -> Response:
    """Answer with what changes of the page; with nothing if the browser has seen it."""
    return visit.renewed("connector_piece.html", await _live(name, visit))


async def _live(name: str, visit: Visit) -> dict[str, Any]:
    info = await visit.get(path_of("connectors", name))
    status = await visit.maybe_get(path_of("connectors", name, "status")) or _not_started(info)
    figures = await visit.maybe_get(path_of("connectors", name, "figures"))
    one = {"info": info, "status": status, "figures": figures}
    by_task = {task["id"]: task for task in figures_of(one)}
    tasks = zip(status["tasks"], task_words(one), strict=True)
    points = visit.series.points(name)
    content = {
        "name": name,
        "state": connector_word(one),
        "kind": kind_word(one),
        "delivery": delivery_word(one),
        "why": why_not_exactly_once(one),
        "class_name": info["config"].get("connector.class") or "",
        "connector": {"trace": None, **status["connector"]},
        "tasks": [{"trace": None, **task, "word": word, "figures": by_task.get(task["id"])} for task, word in tasks],
        "rate": visit.series.rate(name),
        "errors": sum(task.get("errors_total") or 0 for task in by_task.values()),
        "dead_letters": sum(task.get("dead_letters_total") or 0 for task in by_task.values()),
        "throughput": plot.throughput(points),
        "lag": plot.lag(points),
    }
    return content | {"seen": digest(content)}


def _not_started(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a connector that has none yet, as right after it was created."""
    return {"connector": {"state": "UNASSIGNED", "worker_id": ""}, "tasks": [], "type": info["type"]}
