"""Pause, resume, stop and restart of a connector."""

from fastapi import APIRouter
from starlette.responses import Response

from fencepost.cluster.info import ConnectorStatus
from fencepost.rest.describe import also
from fencepost.rest.gateway import Worker
from fencepost.rest.path import ConnectorName
from fencepost.rest.query import IncludeTasks, OnlyFailed
from fencepost.rest.response import empty_response, json_response

router = APIRouter(prefix="/connectors/{name}", tags=["life cycle"])


@router.put("/pause", status_code=202, response_class=Response)
async def pause_connector(name: ConnectorName, worker: Worker) -> Response:
    """Pauses a connector and its tasks; they keep their resources."""
    await worker.run(worker.operations.connectors.pause, name)
    return empty_response(202)


@router.put("/resume", status_code=202, response_class=Response)
async def resume_connector(name: ConnectorName, worker: Worker) -> Response:
    """Lets a paused or stopped connector go on."""
    await worker.run(worker.operations.connectors.resume, name)
    return empty_response(202)


@router.put("/stop", status_code=204)
async def stop_connector(name: ConnectorName, worker: Worker) -> Response:
    """Stops a connector and removes its tasks; config and offsets stay (KIP-875)."""
    await worker.run(worker.operations.connectors.stop, name)
    return empty_response(204)


@router.post(
    "/restart",
    status_code=204,
    responses=also(202, ConnectorStatus, "The instances that will be restarted read RESTARTING"),
)
async def restart_connector(
    name: ConnectorName,
    worker: Worker,
    include_tasks: IncludeTasks = False,
    only_failed: OnlyFailed = False,
) -> Response:
    """Restarts a connector, with its tasks, or only what has failed (KIP-745)."""
    status = await worker.run(
        worker.operations.connectors.restart, name, include_tasks=include_tasks, only_failed=only_failed
    )
    return empty_response(204) if status is None else json_response(status, 202)
