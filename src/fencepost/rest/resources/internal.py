"""Requests between workers, signed with the session key (KIP-507)."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fencepost.cluster.figures import PastFigures, ReportedTask
from fencepost.cluster.log_events import LogQuery, WorkersEvents
from fencepost.rest.body import parse_json, read_signed_body, string_maps
from fencepost.rest.gateway import Gateway, Worker
from fencepost.rest.model import TASK_CONFIGS_SCHEMA, takes
from fencepost.rest.path import ConnectorName, signed_target
from fencepost.rest.response import empty_response, json_response

router = APIRouter(tags=["between workers"])

_CONNECTOR = "/connectors/{name}"


@router.post(f"{_CONNECTOR}/tasks", status_code=204, openapi_extra=takes(TASK_CONFIGS_SCHEMA))
async def put_task_configs(name: ConnectorName, request: Request, worker: Worker) -> Response:
    """Gives the leader a worker's new task configs; a request that no worker has signed is refused (KIP-507)."""
    body = await _verified_body(request, worker)
    configs = string_maps(parse_json(body))
    await worker.run(worker.operations.internal.put_task_configs, name, configs)
    return empty_response(204)


@router.put(f"{_CONNECTOR}/fence", status_code=204)
async def fence(name: ConnectorName, request: Request, worker: Worker) -> Response:
    """Has the leader fence older tasks (KIP-618); refused unless signed by a worker (KIP-507)."""
    await _verified_body(request, worker)
    await worker.run_round(worker.operations.internal.fence, name)
    return empty_response(204)


@router.get("/internal/figures", response_model=list[ReportedTask])
async def get_figures(
    request: Request,
    worker: Worker,
    connector: Annotated[str | None, Query(description="Only those of one connector.")] = None,
) -> Response:
    """Gives another worker what the tasks on this one do; refused unless signed by a worker (KIP-507)."""
    await _verified_body(request, worker)
    return json_response(await worker.recall(worker.operations.probes.figures_here, connector))


@router.get("/internal/past", response_model=list[PastFigures])
async def get_past_figures(request: Request, worker: Worker) -> Response:
    """Gives another worker what tasks here moved in the last hour; refused unless signed by a worker (KIP-507)."""
    await _verified_body(request, worker)
    return json_response(await worker.recall(worker.operations.probes.past_here))


@router.get("/internal/logs", response_model=WorkersEvents)
async def get_logs(request: Request, worker: Worker) -> Response:
    """Gives another worker the log events that this one has; refused unless signed by a worker (KIP-507)."""
    await _verified_body(request, worker)
    asked = request.query_params  # not looked at before, as whoever has not signed the request learns nothing
    task = asked.get("task")
    query = LogQuery(
        None if task is None else int(task),
        int(asked.get("level", "0")),
        asked.get("after"),
        limit=int(asked.get("limit", "500")),
    )
    return json_response(await worker.recall(worker.operations.probes.logs_here, asked.get("connector", ""), query))


async def _verified_body(request: Request, worker: Gateway) -> bytes:
    """Return the body after its signature was verified. Otherwise the sender learns nothing, not even a 404."""
    headers = dict(request.headers)

    async def verify(body: bytes | None) -> bool:
        to_verify = worker.operations.internal.verify
        return await worker.recall(to_verify, request.method, signed_target(request), body, headers)

    return await read_signed_body(request, verify)
