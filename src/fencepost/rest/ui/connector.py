"""`/ui/connectors/C`: a connector and its tasks, the forms that act on it, its logs and the records of its topics."""

import asyncio
import shlex
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.glance import (
    connector_word,
    delivery_word,
    figures_of,
    kind_word,
    remains_of,
    task_words,
    why_not_exactly_once,
)
from fencepost.cluster.topic_records import EARLIEST, LATEST
from fencepost.rest.path import ConnectorName, PathText, TaskNumber
from fencepost.rest.ui import series
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.visit import Visit, Visiting, digest

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
    new = {"connector": {"state": "UNASSIGNED", "worker_id": ""}, "tasks": [], "type": info["type"]}
    status = await visit.maybe_get(path_of("connectors", name, "status")) or new
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
        "throughput": series.throughput(points),
        "lag": series.lag(points),
    }
    return content | {"seen": digest(content)}


action = APIRouter(prefix="/ui/connectors/{name}", include_in_schema=False)


@action.post("/pause")
async def pause(name: ConnectorName, visit: Visiting) -> Response:
    return await _act(visit, name, "PUT", path_of("connectors", name, "pause"))


@action.post("/resume")
async def resume(name: ConnectorName, visit: Visiting) -> Response:
    return await _act(visit, name, "PUT", path_of("connectors", name, "resume"))


@action.post("/stop")
async def stop(name: ConnectorName, visit: Visiting) -> Response:
    return await _act(visit, name, "PUT", path_of("connectors", name, "stop"))


@action.post("/restart")
async def restart(name: ConnectorName, visit: Visiting) -> Response:
    return await _act(visit, name, "POST", path_of("connectors", name, "restart"), includeTasks="true")


@action.post("/tasks/{task}/restart")
async def restart_task(name: ConnectorName, task: TaskNumber, visit: Visiting) -> Response:
    return await _act(visit, name, "POST", path_of("connectors", name, "tasks", task, "restart"))


@action.get("/delete")
async def ask_to_delete(name: ConnectorName, visit: Visiting) -> Response:
    """Ask whether it is meant."""
    info = await visit.get(path_of("connectors", name))
    return visit.page(
        "delete.html", title=f"Delete {name}", name=name, tab="config", remains=remains_of(info["config"])
    )


@action.post("/delete")
async def delete(name: ConnectorName, visit: Visiting) -> Response:
    await visit.form()
    return visit.done(await visit.send("DELETE", path_of("connectors", name)), "/ui")


async def _act(visit: Visit, name: str, method: str, path: str, **query: str) -> Response:
    await visit.form()
    return visit.done(await visit.send(method, path, **query), path_of("ui", "connectors", name))


logs = APIRouter(prefix="/ui/connectors/{name}/logs", include_in_schema=False)

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_MOST_EVENTS = 200


@logs.get("")
async def show_logs(name: ConnectorName, visit: Visiting) -> Response:
    """Answer with the whole page."""
    await visit.get(path_of("connectors", name))
    status = await visit.maybe_get(path_of("connectors", name, "status"))
    tasks = [task["id"] for task in status["tasks"]] if status else []
    content = await _content(name, visit)
    return visit.page("logs.html", title=f"Logs of {name}", tab="logs", tasks=tasks, levels=LEVELS, **content)


@logs.get("/rows")
async def show_rows(name: ConnectorName, visit: Visiting) -> Response:
    """Answer with the events alone; with nothing if there are no others than the browser has."""
    return visit.renewed("logs_rows.html", await _content(name, visit))


async def _content(name: str, visit: Visit) -> dict[str, Any]:
    query = visit.request.query_params
    level, task = query.get("level", "INFO"), query.get("task", "")
    wanted = {"level": level if level in LEVELS else "INFO", "limit": _MOST_EVENTS}
    if task.isdecimal() and len(task) < 10:
        wanted["task"] = task
    found = await visit.maybe_get(path_of("connectors", name, "logs"), **wanted) or {"events": []}
    kept = {"level": wanted["level"], "task": wanted.get("task", "")}
    away = [each["worker_id"] for each in found.get("missed") or () if each["reason"] == "away"]
    seen = digest([found.get("cursor"), away])
    return {"name": name, "events": found["events"][::-1], "away": away, "seen": seen, "wanted": kept}


topic_pages = APIRouter(prefix="/ui/connectors/{name}/topics", include_in_schema=False)

_MOST_RECORDS = 10


@topic_pages.get("/{topic}")
async def show_topic(name: ConnectorName, topic: PathText, visit: Visiting) -> Response:
    """Show records as the connector's converters read them."""
    path = path_of("connectors", name, "topics", topic, "records")
    first, last = await asyncio.gather(
        *(visit.send("GET", path, **{"from": start, "limit": _MOST_RECORDS}) for start in (EARLIEST, LATEST))
    )
    base = str(visit.request.base_url).rstrip("/")
    command = ["fencepost", "topic", "read", topic, "--connector", name, "--follow", "--url", base]
    content = {
        "name": name,
        "topic": topic,
        "fault": next((answer.message for answer in (first, last) if not answer.is_success), None),
        "first": first.content["records"] if first.is_success else [],
        "last": last.content["records"] if last.is_success else [],
        "command": shlex.join(command),
    }
    return visit.page("topic.html", title=f"{topic} of {name}", tab="", **content)
