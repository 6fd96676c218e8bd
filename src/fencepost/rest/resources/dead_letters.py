"""`/connectors/C/dead-letters`: the records that a connector could not process, and their resend."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fencepost.cluster.dead_letters import LetterPage, LetterQuery, ResendProgressInfo, ResendRequest
from fencepost.cluster.errors import BadRequestError
from fencepost.rest.body import json_object, parse_json, read_body, refuse_shape, refuse_unknown
from fencepost.rest.describe import takes
from fencepost.rest.gateway import Worker
from fencepost.rest.model import ResendBody
from fencepost.rest.path import ConnectorName
from fencepost.rest.response import json_response

router = APIRouter(prefix="/connectors/{name}/dead-letters", tags=["dead letters"])

_Limit = Annotated[int, Query(ge=1, le=50, description="How many at most.")]
_Before = Annotated[str | None, Query(description="The `older` of an earlier answer; without it, the newest.")]


@router.get("", response_model=LetterPage)
async def get_dead_letters(name: ConnectorName, worker: Worker, limit: _Limit = 20, before: _Before = None) -> Response:
    """Returns dead letters that name the connector, the newest first, with the beginnings of their contents."""
    query = LetterQuery(limit, before)
    return json_response(await worker.read_letters(worker.operations.connectors.dead_letters.read, name, query))


@router.get("/resend", response_model=ResendProgressInfo)
async def get_resend(name: ConnectorName, worker: Worker) -> Response:
    """Says how far the last resend of the connector is, or how it has ended."""
    return json_response(await worker.run(worker.operations.connectors.dead_letters.progress, name))


@router.post("/resend", status_code=202, response_model=ResendProgressInfo, openapi_extra=takes(ResendBody))
async def resend(name: ConnectorName, request: Request, worker: Worker) -> Response:
    """Begins to resend a sink's dead letters, each once, in transactions; 409 while one of the connector is running."""
    wanted = _wanted(parse_json(await read_body(request)))
    return json_response(await worker.run(worker.operations.connectors.dead_letters.resend, name, wanted), 202)


def _wanted(value: object) -> ResendRequest:
    fields = json_object({} if value is None else value, "ResendRequest")
    refuse_unknown(fields, "ResendRequest", ("letters", "skip"))
    letters, skip = (_names(fields.get(key)) for key in ("letters", "skip"))
    if letters == []:
        raise BadRequestError("letters: name at least one dead letter, or leave it out to resend all that wait")
    return ResendRequest(letters, skip or ())


def _names(value: object) -> list[str] | None:
    if value is not None and not (isinstance(value, list) and all(isinstance(one, str) for one in value)):
        refuse_shape(value, "List<String>")
    return value
