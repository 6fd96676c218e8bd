"""`/ui/connectors/C/logs`: the last log events of a connector and its tasks."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.rest.path import ConnectorName
from fencepost.rest.ui.digest import digest
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.visit import Visit, Visiting

router = APIRouter(prefix="/ui/connectors/{name}/logs", include_in_schema=False)

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_MOST = 200


@router.get("")
async def show_logs(name: ConnectorName, visit: Visiting) -> Response:
    """Answer with the whole page."""
    await visit.get(path_of("connectors", name))
    status = await visit.maybe_get(path_of("connectors", name, "status"))
    tasks = [task["id"] for task in status["tasks"]] if status else []
    content = await _content(name, visit)
    return visit.page("logs.html", title=f"Logs of {name}", tab="logs", tasks=tasks, levels=LEVELS, **content)


@router.get("/rows")
async def show_rows(name: ConnectorName, visit: Visiting) -> Response:
    """Answer with the events alone; with nothing if there are no others than the browser has."""
    return visit.renewed("logs_rows.html", await _content(name, visit))


async def _content(name: str, visit: Visit) -> dict[str, Any]:
    query = visit.request.query_params
    level, task = query.get("level", "INFO"), query.get("task", "")
    wanted = {"level": level if level in LEVELS else "INFO", "limit": _MOST}
    if task.isdecimal() and len(task) < 10:
        wanted["task"] = task
    found = await visit.maybe_get(path_of("connectors", name, "logs"), **wanted) or {"events": []}
    kept = {"level": wanted["level"], "task": wanted.get("task", "")}
    away = [each["worker_id"] for each in found.get("missed") or () if each["reason"] == "away"]
    seen = digest([found.get("cursor"), away])
    return {"name": name, "events": found["events"][::-1], "away": away, "seen": seen, "wanted": kept}
