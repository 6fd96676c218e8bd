"""`/admin/loggers`: log levels of this worker (KIP-495) or of all (KIP-976), lost when a worker restarts."""

import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fencepost.cluster.errors import BadRequestError, NotFoundError
from fencepost.rest.body import read_string_map
from fencepost.rest.describe import also, takes
from fencepost.rest.gateway import Worker
from fencepost.rest.model import LevelBody, LoggerBody
from fencepost.rest.path import PathText
from fencepost.rest.response import empty_response, json_response
from fencepost.telemetry.loggers import LEVELS, loggers

router = APIRouter(prefix="/admin/loggers", tags=["logging"])


@router.get("", response_model=dict[str, LoggerBody])
async def list_loggers() -> Response:
    """Loggers of this worker with their levels."""
    return json_response({name: _body(name) for name in loggers.names()})


@router.get("/{logger}", response_model=LoggerBody)
async def get_logger(logger: PathText) -> Response:
    """Level of one logger."""
    if logger not in loggers.names():
        raise NotFoundError(f"Logger {logger} not found.")
    return json_response(_body(logger))


@router.put(
    "/{logger}",
    response_model=list[str],
    responses=also(204, None, "Sent to all workers"),
    openapi_extra=takes(LevelBody),
)
async def put_level(
    logger: PathText,
    request: Request,
    worker: Worker,
    scope: Annotated[str, Query(description="worker, or cluster: all workers that run now")] = "worker",
) -> Response:
    """Sets the level of a logger and of its children, on this worker or on all."""
    body = await read_string_map(request, '"level"')
    level = body.get("level")
    if level is None:
        raise BadRequestError("Desired 'level' parameter was not specified in request.")
    if level.upper() not in LEVELS:
        raise NotFoundError(f"invalid log level '{level}'.")
    if scope.lower() == "cluster":
        await worker.run(worker.operations.cluster.set_log_level, logger, level.upper())
        return empty_response(204)
    return json_response(loggers.set_level(logger, level, int(time.time() * 1000)))


def _body(name: str) -> dict[str, object]:
    level, last_modified_ms = loggers.level(name)
    return {"level": level, "last_modified": last_modified_ms}
