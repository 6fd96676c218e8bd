"""`/connectors/C/logs` and `/lineage`: what is seen of connectors beside their states."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from fencepost.cluster.errors import BadRequestError, NotFoundError
from fencepost.cluster.info import Lineage
from fencepost.cluster.log_events import LogEvents, LogQuery
from fencepost.rest.access.caller import Asking
from fencepost.rest.gateway import Worker
from fencepost.rest.path import ConnectorName
from fencepost.rest.response import json_response
from fencepost.telemetry.loggers import LEVELS

router = APIRouter(tags=["observation"])

_Task = Annotated[int | None, Query(ge=0, description="Only events of this task.")]
_Level = Annotated[str, Query(description="Only events of this level or a higher one, such as WARNING.")]
_After = Annotated[str | None, Query(description="The cursor of an earlier answer; without it, the newest events.")]
_WaitMs = Annotated[int, Query(ge=0, le=30_000, description="How long to wait for the first event.")]
_Limit = Annotated[int, Query(ge=1, le=1000, description="How many events at most.")]


@router.get("/connectors/{name}/logs", response_model=LogEvents)
async def get_logs(
    name: ConnectorName,
    worker: Worker,
    task: _Task = None,
    level: _Level = "ALL",
    after: _After = None,
    wait_ms: _WaitMs = 0,
    limit: _Limit = 500,
) -> Response:
    """Returns log events of a connector and its tasks, from all workers' memory, the oldest first."""
    if level.upper() not in LEVELS:
        raise BadRequestError(f"level: {level} is none of {', '.join(LEVELS)}")
    query = LogQuery(task, LEVELS[level.upper()], after, wait_ms, limit)
    logs = worker.operations.probes.logs
    if wait_ms and worker.has_room_to_follow:
        return json_response(await worker.follow(logs, name, query))
    return json_response(await worker.look(logs, name, replace(query, wait_ms=0)))


@router.get("/lineage", response_model=list[Lineage])
async def list_lineage(worker: Worker, caller: Asking) -> Response:
    """Says of each connector that the caller may view what it reads and writes."""
    names = caller.visible(worker.local.connector_names())
    return json_response(list(worker.local.lineage(names)))


@router.get("/connectors/{name}/lineage", response_model=Lineage)
async def get_lineage(name: ConnectorName, worker: Worker) -> Response:
    """Says what a connector reads and writes: topics, or something outside of Kafka."""
    found = worker.local.lineage([name])
    if not found:
        raise NotFoundError(f"Connector {name} not found")
    return json_response(found[0])
