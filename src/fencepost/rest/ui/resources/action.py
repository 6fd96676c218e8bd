"""Forms of a connector's page that act on it: pause, resume, stop, restart, delete."""

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.glance import remains_of
from fencepost.rest.path import ConnectorName, TaskNumber
from fencepost.rest.ui.inside import path_of
from fencepost.rest.ui.visit import Visit, Visiting

router = APIRouter(prefix="/ui/connectors/{name}", include_in_schema=False)


@router.post("/pause")
async def pause(name: ConnectorName, visit: Visiting) -> Response:
    return await _act(visit, name, "PUT", path_of("connectors", name, "pause"))


@router.post("/resume")
async def resume(name: ConnectorName, visit: Visiting) -> Response:
    return await _act(visit, name, "PUT", path_of("connectors", name, "resume"))


@router.post("/stop")
async def stop(name: ConnectorName, visit: Visiting) -> Response:
    return await _act(visit, name, "PUT", path_of("connectors", name, "stop"))


@router.post("/restart")
async def restart(name: ConnectorName, visit: Visiting) -> Response:
    return await _act(visit, name, "POST", path_of("connectors", name, "restart"), includeTasks="true")


@router.post("/tasks/{task}/restart")
async def restart_task(name: ConnectorName, task: TaskNumber, visit: Visiting) -> Response:
    return await _act(visit, name, "POST", path_of("connectors", name, "tasks", task, "restart"))


@router.get("/delete")
async def ask_to_delete(name: ConnectorName, visit: Visiting) -> Response:
    """Ask whether it is meant."""
    info = await visit.get(path_of("connectors", name))
    return visit.page(
        "delete.html", title=f"Delete {name}", name=name, tab="config", remains=remains_of(info["config"])
    )


@router.post("/delete")
async def delete(name: ConnectorName, visit: Visiting) -> Response:
    await visit.form()
    return visit.done(await visit.send("DELETE", path_of("connectors", name)), "/ui")


async def _act(visit: Visit, name: str, method: str, path: str, **query: str) -> Response:
    await visit.form()
    return visit.done(await visit.send(method, path, **query), path_of("ui", "connectors", name))
